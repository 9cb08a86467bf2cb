package transporttest

import (
	"fmt"
	"math/rand/v2"

	"github.com/lastcall-go/lastcall/transport"
)

var randomCases = []testCase{
	{name: "random sequences end in the truth", needs: []Fault{FaultDrop, FaultReset}, test: func(e *env) {
		for seed := range uint64(12) {
			w := &walk{env: e, random: rand.New(rand.NewPCG(seed, 1)), queue: e.queue(0)}
			for range 60 {
				w.step()
			}
			w.finish(fmt.Sprintf("seed %d", seed))
		}
	}},
}

// walk is a random sequence of everything a consumer can do to one queue.
type walk struct {
	*env
	random    *rand.Rand
	queue     string
	published int
	sessions  []transport.Session
	live      []*walker
	all       []*recorder
}

// walker is one live stream of a walk; next is its first delivery that has not been looked at.
type walker struct {
	*recorder
	session transport.Session
	open    []uint64
	next    int
}

func (w *walk) step() {
	switch n := w.random.IntN(100); {
	case n < 20:
		k := 1 + w.random.IntN(12)
		w.Publish(w, w.queue, messages(w.published, k)...)
		w.published += k
	case n < 30 && len(w.live) < 4 || len(w.live) == 0:
		w.consume1()
	case n < 85:
		w.settleSome(w.live[w.random.IntN(len(w.live))])
	case n < 89:
		w.live[w.random.IntN(len(w.live))].stream.Cancel()
	case n < 94:
		i := w.random.IntN(len(w.live))
		r := w.live[i]
		w.live = append(w.live[:i:i], w.live[i+1:]...)
		w.closeStream(r.recorder)
	default:
		w.lose(w.sessions[w.random.IntN(len(w.sessions))])
	}
}

// consume1 opens a stream on a session that lives, or on a new one.
func (w *walk) consume1() {
	if len(w.sessions) == 0 || len(w.sessions) < 3 && w.random.IntN(2) == 0 {
		w.sessions = append(w.sessions, w.dial())
	}
	s := w.sessions[w.random.IntN(len(w.sessions))]
	r := w.open(s, w.queue, 1+w.random.IntN(8))
	w.live = append(w.live, &walker{recorder: r, session: s})
	w.all = append(w.all, r)
}

// settleSome settles some of what a stream has, in any order, with any verb.
func (w *walk) settleSome(r *walker) {
	got := r.got()
	for ; r.next < len(got); r.next++ {
		r.open = append(r.open, got[r.next].Tag)
	}
	for range w.random.IntN(len(r.open) + 1) {
		i := w.random.IntN(len(r.open))
		tag := r.open[i]
		r.open = append(r.open[:i:i], r.open[i+1:]...)
		r.settle(tag, []transport.Verb{transport.Ack, transport.Ack, transport.Requeue, transport.Reject}[w.random.IntN(4)])
	}
}

// lose ends a session in any of the ways it can end.
func (w *walk) lose(s transport.Session) {
	switch w.random.IntN(4) {
	case 0:
		w.Faults.Drop(w, s)
	case 1:
		w.Faults.Reset(w, s)
	case 2:
		s.Cut()
	case 3:
		w.closeSession(s)
	}
	w.awaitClosed("Session.Done", s.Done())
	w.forget(s)
}

func (w *walk) forget(s transport.Session) {
	w.sessions = without(w.sessions, func(o transport.Session) bool { return o == s })
	w.live = without(w.live, func(r *walker) bool { return r.session == s })
}

// finish ends what lives, in order, and holds all that was claimed against what is left.
func (w *walk) finish(name string) {
	for _, r := range w.live {
		w.closeStream(r.recorder)
		if r.proven != uint64(len(r.written)) {
			w.Errorf("%s: %d of %d settlements are proven after the close", name, r.proven, len(r.written))
		}
	}
	for _, s := range w.sessions {
		w.closeSession(s)
		w.end(s)
	}
	w.wantTruth(w.queue, messageIDs(0, w.published), w.all...)
	if w.Failed() {
		w.Fatal(name)
	}
}

func without[T any](from []T, drop func(T) bool) (kept []T) {
	for _, v := range from {
		if !drop(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
