package managed

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/lastcall-go/lastcall/report"
)

// histogram counts handler times in buckets of an eighth of a power of two microseconds: at most 12.5 % too high, fixed size,
// no lock. Each worker has its own.
type histogram struct {
	buckets [histogramBuckets]atomic.Uint32
	max     atomic.Int64
}

const (
	histogramSub     = 8
	histogramBuckets = 40 * histogramSub
)

func histogramIndex(us uint64) int {
	if us < histogramSub {
		return int(us)
	}
	exp := bits.Len64(us) - 4 // us>>exp lies in 8..15
	return min(histogramSub+exp*histogramSub+int(us>>exp)-histogramSub, histogramBuckets-1)
}

// histogramValue is the largest value of bucket i.
func histogramValue(i int) int64 {
	if i < histogramSub {
		return int64(i)
	}
	exp, sub := (i-histogramSub)/histogramSub, (i-histogramSub)%histogramSub
	return int64(sub+histogramSub+1)<<exp - 1
}

func (h *histogram) add(d time.Duration) {
	us := max(d.Microseconds(), 0)
	h.buckets[histogramIndex(uint64(us))].Add(1)
	if us > h.max.Load() { // one writer
		h.max.Store(us)
	}
}

// handlerTimes merges the workers' histograms.
func handlerTimes(workers []*worker) report.HandlerTimes {
	var sum [histogramBuckets]uint64
	var out report.HandlerTimes
	for _, w := range workers {
		for i := range w.times.buckets {
			n := uint64(w.times.buckets[i].Load())
			sum[i] += n
			out.Count += n
		}
		out.Max = max(out.Max, w.times.max.Load())
	}
	quantile := func(per100 uint64) int64 {
		need := (out.Count*per100 + 99) / 100
		var seen uint64
		for i, n := range sum {
			if seen += n; seen >= need && n > 0 {
				return min(histogramValue(i), out.Max)
			}
		}
		return 0
	}
	out.P50, out.P95 = quantile(50), quantile(95)
	return out
}
