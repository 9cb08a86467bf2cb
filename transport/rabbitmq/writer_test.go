package rabbitmq

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/transport"
)

// newPlanner is a writer that has delivered tags up to last and writes nowhere.
func newPlanner(last uint64) *writer {
	w := newWriter(&stream{lane: &lane{channel: 7}})
	w.stream.received.Store(last)
	return w
}

func (w *writer) planFor(batch ...*transport.Settlement) {
	w.batch = batch
	w.plan()
}

func tagsOf(batch []*transport.Settlement) (tags []uint64) {
	for _, x := range batch {
		tags = append(tags, x.Tag)
	}
	return tags
}

// sent is a settlement frame as a broker reads it.
type sent struct {
	Method method
	Tag    uint64
	Bits   byte
}

func readSettlements(b []byte) (all []sent) {
	for len(b) > 0 {
		f, size := nextFrame(b)
		all = append(all, sent{f.method, binary.BigEndian.Uint64(b[11:]), b[19]})
		b = b[size:]
	}
	return all
}

func TestPlan(t *testing.T) {
	const ack, requeue, reject = transport.Ack, transport.Requeue, transport.Reject
	type settlement = transport.Settlement
	for name, c := range map[string]struct {
		batch   []settlement
		want    []sent
		order   []uint64
		refused []uint64
	}{
		"one is no multiple":    {batch: []settlement{{Tag: 1, Verb: ack}}, want: []sent{{basicAck, 1, 0}}, order: []uint64{1}},
		"a prefix is one frame": {batch: []settlement{{Tag: 2, Verb: ack}, {Tag: 3, Verb: ack}, {Tag: 1, Verb: ack}}, want: []sent{{basicAck, 3, 1}}, order: []uint64{2, 3, 1}},
		"behind a running handler all go singly": {batch: []settlement{{Tag: 2, Verb: ack}, {Tag: 3, Verb: ack}},
			want: []sent{{basicAck, 2, 0}, {basicAck, 3, 0}}, order: []uint64{2, 3}},
		"the rest goes first": {batch: []settlement{{Tag: 1, Verb: ack}, {Tag: 2, Verb: ack}, {Tag: 5, Verb: ack}},
			want: []sent{{basicAck, 5, 0}, {basicAck, 2, 1}}, order: []uint64{5, 1, 2}},
		"other verbs go first, and a multiple reaches over them": {batch: []settlement{{Tag: 1, Verb: ack}, {Tag: 2, Verb: requeue}, {Tag: 3, Verb: ack}, {Tag: 4, Verb: reject}},
			want: []sent{{basicNack, 2, 2}, {basicReject, 4, 0}, {basicAck, 3, 1}}, order: []uint64{2, 4, 1, 3}},
		"a multiple names a tag that is acked": {batch: []settlement{{Tag: 1, Verb: requeue}, {Tag: 2, Verb: requeue}, {Tag: 3, Verb: ack}},
			want: []sent{{basicNack, 1, 2}, {basicNack, 2, 2}, {basicAck, 3, 0}}, order: []uint64{1, 2, 3}},
		"nonsense": {batch: []settlement{{Tag: 0, Verb: ack}, {Tag: 11, Verb: ack}, {Tag: 1}, {Tag: 1, Verb: 9}, {Tag: 1, Verb: ack}, {Tag: 1, Verb: reject}},
			want: []sent{{basicAck, 1, 0}}, order: []uint64{1}, refused: []uint64{0, 11, 1, 1, 1}},
	} {
		w := newPlanner(10)
		var batch []*transport.Settlement
		for i := range c.batch {
			batch = append(batch, &c.batch[i])
		}
		w.planFor(batch...)
		if diff := cmp.Diff(c.want, readSettlements(w.frames)); diff != "" {
			t.Errorf("%s: frames (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.order, tagsOf(w.order)); diff != "" {
			t.Errorf("%s: order (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.refused, tagsOf(w.refused)); diff != "" {
			t.Errorf("%s: refused (-want +got):\n%s", name, diff)
		}
	}
}

// Against a broker that keeps a set of unsettled deliveries and closes the channel at the first tag it does not know: every
// delivery is settled with its own verb, and the order reported is the order taken.
func TestPlanSettlesEachDeliveryWithItsOwnVerb(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newPlanner(0)
		last := uint64(0)
		said := make(map[uint64]transport.Verb) // by the handlers
		taken := make(map[uint64]transport.Verb)
		var running []uint64 // delivered, not submitted
		for range rapid.IntRange(1, 20).Draw(t, "passes") {
			for range rapid.IntRange(0, 10).Draw(t, "deliveries") {
				last++
				running = append(running, last)
			}
			w.stream.received.Store(last)
			var batch []*transport.Settlement
			for range rapid.IntRange(0, len(running)).Draw(t, "finished") {
				i := rapid.IntRange(0, min(len(running)-1, 6)).Draw(t, "which")
				verb := rapid.SampledFrom([]transport.Verb{transport.Ack, transport.Ack, transport.Ack, transport.Requeue, transport.Reject}).Draw(t, "verb")
				said[running[i]] = verb
				batch = append(batch, &transport.Settlement{Tag: running[i], Verb: verb})
				running = slices.Delete(running, i, i+1)
			}
			w.planFor(batch...)
			if len(w.refused) > 0 {
				t.Fatalf("refused %v", tagsOf(w.refused))
			}
			order := tagsOf(w.order)
			for _, f := range readSettlements(w.frames) {
				verb := map[method]transport.Verb{basicAck: transport.Ack, basicNack: transport.Requeue, basicReject: transport.Reject}[f.Method]
				settled := []uint64{f.Tag}
				if f.Bits&bitMultiple != 0 {
					settled = nil
					for tag := uint64(1); tag <= f.Tag; tag++ {
						if _, ok := taken[tag]; !ok {
							settled = append(settled, tag)
						}
					}
				}
				if _, again := taken[f.Tag]; again || f.Tag == 0 || f.Tag > last {
					t.Fatalf("406: unknown delivery tag %d", f.Tag)
				}
				for _, tag := range settled {
					taken[tag] = verb
				}
				reported := slices.Clone(order[:len(settled)])
				slices.Sort(reported)
				if diff := cmp.Diff(settled, reported); diff != "" {
					t.Fatalf("a frame settles other deliveries than are reported in its place (-taken +reported):\n%s", diff)
				}
				order = order[len(settled):]
			}
		}
		if diff := cmp.Diff(said, taken); diff != "" {
			t.Fatalf("settled (-said +taken):\n%s", diff)
		}
	})
}

// Submit is called once for each delivery, by handlers that must not wait.
func TestSubmitAllocatesNothing(t *testing.T) {
	w := newPlanner(0)
	x := &transport.Settlement{Tag: 1, Verb: transport.Ack}
	var batch []*transport.Settlement
	if n := testing.AllocsPerRun(100, func() {
		w.submit(x)
		batch = w.queue.Take(batch[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
