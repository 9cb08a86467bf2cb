package rabbitmq

import "time"

// maxUnapplied is how many settlement frames RabbitMQ passes on to a quorum queue before the first of them is applied; what
// comes on top it keeps, and drops when the channel closes (quorum_commands_soft_limit).
const maxUnapplied = 32

// tail remembers the last frames written.
type tail struct {
	settled uint64 // settlements
	frames  uint64
	ring    [maxUnapplied + 1]mark // by frame number
}

// mark is the state after a frame.
type mark struct {
	settled uint64
	at      time.Time
}

// add notes frames written at once for so many settlements; the last frame may stand for several.
func (t *tail) add(frames, settlements int, at time.Time) {
	for i := range frames {
		t.settled++
		if i == frames-1 {
			t.settled += uint64(settlements - frames)
		}
		t.frames++
		t.ring[t.frames%uint64(len(t.ring))] = mark{t.settled, at}
	}
}

// before returns the mark before the last maxUnapplied frames: what must be applied for them to be taken.
func (t *tail) before() mark {
	if t.frames <= maxUnapplied {
		return mark{}
	}
	return t.ring[(t.frames-maxUnapplied)%uint64(len(t.ring))]
}
