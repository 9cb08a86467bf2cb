package transport_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/transport"
)

func TestQueueKeepsTheOrderOfPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q transport.Queue
		var queued []*transport.Settlement
		next := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "step") > 0 {
				next++
				s := &transport.Settlement{Tag: next}
				if got, want := q.Push(s), len(queued) == 0; got != want {
					t.Fatalf("Push reported empty %t, want %t", got, want)
				}
				queued = append(queued, s)
				continue
			}
			kept := []*transport.Settlement{{Tag: 1}, {Tag: 2}}[:rapid.IntRange(0, 2).Draw(t, "kept")]
			got := q.Take(slices.Clone(kept))
			if want := slices.Concat(kept, queued); !slices.Equal(got, want) {
				t.Fatalf("Take returned %v, want %v", got, want)
			}
			queued = nil
		}
		if got, want := q.Empty(), len(queued) == 0; got != want {
			t.Fatalf("Empty is %t, want %t", got, want)
		}
	})
}

// TestQueueFromManyGoroutines: everything pushed is taken once, in the order of each pusher, and a consumer that sleeps until
// Push says that the queue was empty misses nothing.
func TestQueueFromManyGoroutines(t *testing.T) {
	const pushers, each = 8, 2000
	var q transport.Queue
	awake := make(chan struct{}, 1)
	var group sync.WaitGroup
	for p := range pushers {
		group.Go(func() {
			for i := range each {
				if q.Push(&transport.Settlement{Tag: uint64(i), Owner: p}) {
					select {
					case awake <- struct{}{}:
					default:
					}
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	var next [pushers]uint64
	var batch []*transport.Settlement
	for taken := 0; taken < pushers*each; {
		<-awake
		batch = q.Take(batch[:0])
		taken += len(batch)
		for _, s := range batch {
			p := s.Owner.(int)
			if s.Tag != next[p] {
				t.Fatalf("pusher %d: took %d, want %d", p, s.Tag, next[p])
			}
			next[p]++
		}
	}
	group.Wait()
	if !q.Empty() {
		t.Error("the queue is not empty")
	}
}

// TestTakenSettlementsHoldNothing: one that is kept does not keep those it was queued with.
func TestTakenSettlementsHoldNothing(t *testing.T) {
	var q transport.Queue
	first, second := &transport.Settlement{Tag: 1}, &transport.Settlement{Tag: 2}
	gone := weak.Make(first)
	q.Push(first)
	q.Push(second)
	first = nil
	q.Take(nil)
	runtime.GC()
	if s := gone.Value(); s != nil {
		t.Errorf("settlement %d is held", s.Tag)
	}
	runtime.KeepAlive(second)
}

// TestSettlementsMayBeUsedAgain: what was taken may be pushed again at once.
func TestSettlementsMayBeUsedAgain(t *testing.T) {
	var q transport.Queue
	var own [3]transport.Settlement
	for round := range 3 {
		for i := range own {
			own[i].Tag = uint64(round*len(own) + i)
			q.Push(&own[i])
		}
		got := q.Take(nil)
		if want := []*transport.Settlement{&own[0], &own[1], &own[2]}; !slices.Equal(got, want) {
			t.Fatalf("round %d: took %v, want %v", round, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		q.Push(&own[0])
		q.Push(&own[1])
		q.Take(nil)
	}); n > 2 { // the nil batch grows twice; nothing else
		t.Errorf("%v allocations for two pushes and one take", n)
	}
}

func BenchmarkQueue(b *testing.B) {
	var q transport.Queue
	var own [64]transport.Settlement
	var batch []*transport.Settlement
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		q.Push(&own[i])
		if i++; i == len(own) {
			batch = q.Take(batch[:0])
			i = 0
		}
	}
}
