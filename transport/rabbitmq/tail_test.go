package rabbitmq

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/transport"
)

// Against the whole list of frames.
func TestTailKnowsWhatMustBeApplied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got tail
		after := []uint64{0} // settlements after each frame
		lastAck := 0         // its number
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			var order []*transport.Settlement
			for range rapid.IntRange(1, 40).Draw(t, "frames") {
				order = append(order, &transport.Settlement{Verb: rapid.SampledFrom([]transport.Verb{transport.Ack, transport.Requeue, transport.Reject}).Draw(t, "verb")})
				after = append(after, after[len(after)-1]+1)
				if order[len(order)-1].Verb != transport.Requeue {
					lastAck = len(after) - 1
				}
			}
			frames := len(order)
			if order[frames-1].Verb == transport.Ack {
				for range rapid.IntRange(0, 5).Draw(t, "folded") {
					order = append(order, &transport.Settlement{Verb: transport.Ack})
					after[len(after)-1]++
				}
			}
			got.add(frames, order)
			if want := after[max(lastAck-maxUnapplied, 0)]; got.needed != want || got.settled != after[len(after)-1] {
				t.Fatalf("after %d frames, the last ack or reject being the %d.: %d needed and %d settled, want %d and %d",
					len(after)-1, lastAck, got.needed, got.settled, want, after[len(after)-1])
			}
		}
	})
}
