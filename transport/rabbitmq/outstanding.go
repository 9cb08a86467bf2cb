package rabbitmq

import "slices"

// outstanding knows which deliveries are unsettled, from the settlements alone: tags are 1, 2, 3, …, so all above the highest
// one settled are, and below it those in a gap. There are hardly more gaps than handlers running, whatever the prefetch.
type outstanding struct {
	top  uint64   // the highest tag settled
	gaps []uint64 // unsettled tags below top, ascending
}

// first returns the lowest unsettled tag.
func (o *outstanding) first() uint64 {
	if len(o.gaps) > 0 {
		return o.gaps[0]
	}
	return o.top + 1
}

// settle takes tag out. It refuses one that was settled before, and one above last, which was never delivered: on the wire
// either would close the channel, and tag 0 means all there are.
func (o *outstanding) settle(tag, last uint64) bool {
	if tag > o.top {
		if tag > last {
			return false
		}
		for t := o.top + 1; t < tag; t++ {
			o.gaps = append(o.gaps, t)
		}
		o.top = tag
		return true
	}
	i, found := slices.BinarySearch(o.gaps, tag)
	if found {
		o.gaps = slices.Delete(o.gaps, i, i+1)
	}
	return found
}
