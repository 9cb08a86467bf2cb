package rabbitmq

import "github.com/lastcall-go/lastcall/transport"

// maxUnapplied is how many settlement frames RabbitMQ passes on to a quorum queue before the first of them is applied; what
// comes on top it keeps, and drops when the channel closes (quorum_commands_soft_limit).
const maxUnapplied = 32

// tail remembers the last frames written.
type tail struct {
	settled uint64 // settlements
	// needed is how many settlements must be applied for the close of the channel to lose none: those before the last maxUnapplied
	// frames up to an ack or reject. A requeue that is dropped comes to the same, for the close gives the delivery back.
	needed uint64

	frames uint64
	ring   [maxUnapplied + 1]uint64 // settlements after a frame, by frame number
}

// add notes frames for so many settlements in their order; the last frame may stand for several.
func (t *tail) add(frames int, order []*transport.Settlement) {
	for i, x := range order[:frames] {
		t.settled++
		if i == frames-1 {
			t.settled += uint64(len(order) - frames)
		}
		t.frames++
		t.ring[t.frames%uint64(len(t.ring))] = t.settled
		if x.Verb != transport.Requeue && t.frames > maxUnapplied {
			t.needed = t.ring[(t.frames-maxUnapplied)%uint64(len(t.ring))]
		}
	}
}
