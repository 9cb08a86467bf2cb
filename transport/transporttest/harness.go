package transporttest

import (
	"slices"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/transport"
)

// Harness connects the suite to one transport and its broker. Its functions fail t if they cannot do their work. Goroutines
// they need for longer than one test must run before Run is called; everything else ends by t.Cleanup.
type Harness struct {
	// New returns a transport to the broker. Required.
	New func(t testing.TB) transport.Transport
	// NewQueue makes an empty queue of its own and returns its name. Required.
	NewQueue func(t testing.TB, o QueueOptions) string
	// Publish puts messages into a queue in order and returns when the broker has them. Required.
	Publish func(t testing.TB, queue string, messages ...Message)
	// Drain takes out of a queue everything the broker still has, in order. By then the suite has ended every session that
	// consumed from it. atLeast is how many messages must be there: wait for them, then take what else there is. Required.
	Drain func(t testing.TB, queue string, atLeast int) []Message
	// Kinds are the kinds of queue to run with. Nil means DeclareClassic alone.
	Kinds []transport.Declare
	// Faults misbehave on request.
	Faults Faults
	// Without names the faults that this transport cannot have; their tests do not run. A fault that is neither provided nor
	// named here fails the suite.
	Without []Fault
	// Patience is how long to wait for what must happen. Zero means 5 s.
	Patience time.Duration
}

// QueueOptions describe a queue to make.
type QueueOptions struct {
	Kind transport.Declare // DeclareClassic or DeclareQuorum
	// DeadLetter is the queue where rejected messages go. Empty means that they are gone.
	DeadLetter string
}

// Message is what the suite publishes and drains.
type Message struct {
	ID          string
	Body        []byte
	ContentType string
	Headers     map[string]any
}

// Fault names one of Faults.
type Fault string

// The faults.
const (
	FaultDrop        Fault = "Drop"
	FaultReset       Fault = "Reset"
	FaultSilence     Fault = "Silence"
	FaultSilenceDial Fault = "SilenceDial"
	FaultDeleteQueue Fault = "DeleteQueue"
)

// Faults misbehave on the broker's side, or between.
type Faults struct {
	// Drop makes the broker close the session's connection with a code.
	Drop func(t testing.TB, s transport.Session)
	// Reset resets the session's socket without a word.
	Reset func(t testing.TB, s transport.Session)
	// Silence stops everything between the session and the broker, in both directions, with the socket left open. What it
	// returns lets everything pass again, nothing lost.
	Silence func(t testing.TB, s transport.Session) (resume func())
	// SilenceDial makes a later Dial of tr find a peer that accepts and never says a word.
	SilenceDial func(t testing.TB, tr transport.Transport) (resume func())
	// DeleteQueue deletes a queue under its consumers.
	DeleteQueue func(t testing.TB, queue string)
}

// has reports whether the fault is provided.
func (h Harness) has(f Fault) bool {
	switch f {
	case FaultDrop:
		return h.Faults.Drop != nil
	case FaultReset:
		return h.Faults.Reset != nil
	case FaultSilence:
		return h.Faults.Silence != nil
	case FaultSilenceDial:
		return h.Faults.SilenceDial != nil
	case FaultDeleteQueue:
		return h.Faults.DeleteQueue != nil
	}
	return false
}

// complete fails t for what is missing and fills in the zeros.
func (h Harness) complete(t *testing.T) Harness {
	if h.New == nil || h.NewQueue == nil || h.Publish == nil || h.Drain == nil {
		t.Fatal("transporttest: a Harness needs New, NewQueue, Publish and Drain")
	}
	for _, f := range []Fault{FaultDrop, FaultReset, FaultSilence, FaultSilenceDial, FaultDeleteQueue} {
		if h.has(f) == slices.Contains(h.Without, f) {
			t.Fatalf("transporttest: the fault %s must either be provided or be named in Without", f)
		}
	}
	if h.Patience == 0 {
		h.Patience = 5 * time.Second
	}
	if len(h.Kinds) == 0 {
		h.Kinds = []transport.Declare{transport.DeclareClassic}
	}
	return h
}
