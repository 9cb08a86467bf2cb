package rabbitmq_test

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

const (
	benchMessages = 10_000 // in each of benchRounds rounds
	benchRounds   = 5
	benchPrefetch = 256
	benchReaders  = 16
)

// BenchmarkConsume consumes 50,000 messages of 128 bytes at prefetch 256 with 16 no-op readers: bare amqp091-go that acks each,
// and this transport. The two alternate, for the machine is never the same twice. The ratios are medians over the rounds, of this
// against bare: messages a second (more is better) and this process's CPU a message (less is better).
func BenchmarkConsume(b *testing.B) {
	a := newAdmin(b)
	for _, kind := range []transport.Declare{transport.DeclareClassic, transport.DeclareQuorum} {
		b.Run(kind.String(), func(b *testing.B) {
			var bareRate, rate, rateRatio, bareCPU, cpu, cpuRatio []float64
			for b.Loop() {
				for range benchRounds {
					bare, ours := measure(b, a, kind, bareConsumer), measure(b, a, kind, ourConsumer)
					bareRate, rate = append(bareRate, bare.rate()), append(rate, ours.rate())
					bareCPU, cpu = append(bareCPU, bare.perMessage()), append(cpu, ours.perMessage())
					rateRatio = append(rateRatio, ours.rate()/bare.rate())
					cpuRatio = append(cpuRatio, ours.perMessage()/bare.perMessage())
				}
			}
			b.ReportMetric(median(bareRate), "bare-msgs/s")
			b.ReportMetric(median(rate), "msgs/s")
			b.ReportMetric(median(rateRatio), "rate-ratio")
			b.ReportMetric(median(bareCPU), "bare-cpu-µs/msg")
			b.ReportMetric(median(cpu), "cpu-µs/msg")
			b.ReportMetric(median(cpuRatio), "cpu-ratio")
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// cost is what consuming benchMessages took.
type cost struct {
	wall time.Duration
	cpu  time.Duration
}

func (c cost) rate() float64       { return benchMessages / c.wall.Seconds() }
func (c cost) perMessage() float64 { return float64(c.cpu.Microseconds()) / benchMessages }

// measure fills a queue and has it emptied.
func measure(b *testing.B, a *admin, kind transport.Declare, consume func(b *testing.B, queue string)) cost {
	b.Helper()
	q := a.queue(b, transporttest.QueueOptions{Kind: kind})
	body := bytes.Repeat([]byte("x"), 128)
	batch := make([]transporttest.Message, 1000)
	for i := range batch {
		batch[i].Body = body
	}
	for range benchMessages / len(batch) {
		a.publish(b, q, batch...)
	}
	began, cpu := time.Now(), cpuTime(b)
	consume(b, q)
	return cost{time.Since(began), cpuTime(b) - cpu}
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func bareConsumer(b *testing.B, queue string) {
	c, err := amqp.Dial(brokerURL())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ch, err := c.Channel()
	if err != nil {
		b.Fatal(err)
	}
	if err := ch.Qos(benchPrefetch, 0, false); err != nil {
		b.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	all := make(chan struct{})
	for range benchReaders {
		go func() {
			for d := range deliveries {
				if err := d.Ack(false); err != nil {
					return
				}
				if n.Add(1) == benchMessages {
					close(all)
				}
			}
		}()
	}
	<-all
}

func ourConsumer(b *testing.B, queue string) {
	t := newTransport(b, rabbitmq.Config{URL: brokerURL()})
	s, err := t.Dial(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer end(b, s)
	sink := &benchSink{work: make(chan *benchDelivery, benchPrefetch), all: make(chan struct{})}
	stream, err := s.Consume(b.Context(), transport.Subscription{Queue: queue, Prefetch: benchPrefetch}, sink)
	if err != nil {
		b.Fatal(err)
	}
	var readers sync.WaitGroup
	for range benchReaders {
		readers.Go(func() {
			for d := range sink.work {
				d.Verb = transport.Ack
				stream.Submit(&d.Settlement)
			}
		})
	}
	<-sink.all
	if err := stream.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	close(sink.work)
	readers.Wait()
}

// benchDelivery is a delivery with its settlement, as a real sink keeps them.
type benchDelivery struct {
	transport.Settlement
	delivery *transport.Delivery
}

// benchSink hands deliveries to readers and counts what was written.
type benchSink struct {
	work    chan *benchDelivery
	written int
	all     chan struct{}
}

func (s *benchSink) Deliver(d *transport.Delivery) {
	x := &benchDelivery{delivery: d}
	x.Tag = d.Tag
	s.work <- x
}

func (s *benchSink) Written(batch []*transport.Settlement, _ time.Time) {
	if s.written += len(batch); s.written == benchMessages {
		close(s.all)
	}
}

func (s *benchSink) Failed([]*transport.Settlement, error) {}
func (s *benchSink) Proven(uint64, transport.Proof)        {}
func (s *benchSink) Observe(transport.Observation)         {}
func (s *benchSink) Ended(transport.End)                   {}
