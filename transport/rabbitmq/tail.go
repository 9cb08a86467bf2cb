package rabbitmq

// maxUnapplied is how many settlement frames RabbitMQ passes on to a quorum queue before the first of them is applied; what
// comes on top it keeps, and drops when the channel closes (quorum_commands_soft_limit).
const maxUnapplied = 32

// tail remembers the last frames written.
type tail struct {
	settled uint64 // settlements
	frames  uint64
	ring    [maxUnapplied + 1]uint64 // settlements after a frame, by frame number
}

// add notes frames for so many settlements; the last frame may stand for several.
func (t *tail) add(frames, settlements int) {
	for i := range frames {
		t.settled++
		if i == frames-1 {
			t.settled += uint64(settlements - frames)
		}
		t.frames++
		t.ring[t.frames%uint64(len(t.ring))] = t.settled
	}
}

// before returns the settlements before the last maxUnapplied frames: what must be applied for those to be taken.
func (t *tail) before() uint64 {
	if t.frames <= maxUnapplied {
		return 0
	}
	return t.ring[(t.frames-maxUnapplied)%uint64(len(t.ring))]
}
