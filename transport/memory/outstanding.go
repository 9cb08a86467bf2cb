package memory

import "slices"

// outstanding holds a channel's unsettled deliveries by tag. Its size follows what is unsettled, however long the oldest
// stays. The zero value is ready.
type outstanding struct {
	entries []entry // by rising tag, settled ones among them
	live    int
}

// entry is one delivery. written: its settlement left, or failed to; either way a second one is refused.
type entry struct {
	tag     uint64
	message *message // nil once settled
	written bool
}

func (o *outstanding) add(tag uint64, m *message) {
	if len(o.entries) > 2*o.live+64 {
		o.entries = slices.DeleteFunc(o.entries, func(e entry) bool { return e.message == nil })
	}
	o.entries = append(o.entries, entry{tag: tag, message: m})
	o.live++
}

// find returns the entry of an unsettled delivery, nil if there is none. It is valid until the next add.
func (o *outstanding) find(tag uint64) *entry {
	if len(o.entries) == 0 || tag < o.entries[0].tag {
		return nil
	}
	// Without gaps the place follows from the tag; with gaps it lies before that.
	i := tag - o.entries[0].tag
	if i >= uint64(len(o.entries)) || o.entries[i].tag != tag {
		at, ok := slices.BinarySearchFunc(o.entries, tag, func(e entry, tag uint64) int {
			if e.tag < tag {
				return -1
			}
			return int(min(e.tag-tag, 1))
		})
		if !ok {
			return nil
		}
		i = uint64(at)
	}
	if e := &o.entries[i]; e.message != nil {
		return e
	}
	return nil
}

// settle removes e and returns its message.
func (o *outstanding) settle(e *entry) *message {
	m := e.message
	e.message = nil
	o.live--
	return m
}

// takeAll empties o and returns what was unsettled, by rising tag.
func (o *outstanding) takeAll() []*message {
	left := make([]*message, 0, o.live)
	for _, e := range o.entries {
		if e.message != nil {
			left = append(left, e.message)
		}
	}
	*o = outstanding{}
	return left
}
