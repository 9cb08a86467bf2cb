package rabbitmq

import (
	"testing"

	"pgregory.net/rapid"
)

// Against a plain set of tags: what is refused, and what is lowest.
func TestOutstandingIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o outstanding
		last := uint64(rapid.IntRange(0, 40).Draw(t, "delivered"))
		unsettled := make(map[uint64]bool)
		for tag := uint64(1); tag <= last; tag++ {
			unsettled[tag] = true
		}
		for _, tag := range rapid.SliceOf(rapid.Uint64Range(0, 45)).Draw(t, "tags") {
			if got := o.settle(tag, last); got != unsettled[tag] {
				t.Fatalf("settle(%d) of %d delivered: %t, want %t", tag, last, got, unsettled[tag])
			}
			delete(unsettled, tag)
			lowest := uint64(1)
			for lowest <= last && !unsettled[lowest] {
				lowest++
			}
			if got := o.first(); got != lowest {
				t.Fatalf("first: %d, want %d", got, lowest)
			}
		}
	})
}
