package rabbitmq

import (
	"testing"

	"pgregory.net/rapid"
)

// Against the whole list of frames.
func TestTailRemembersTheFrameBeforeTheLast32(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got tail
		all := []uint64{0} // settlements after each frame
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			frames := rapid.IntRange(1, 40).Draw(t, "frames")
			folded := rapid.IntRange(0, 5).Draw(t, "folded")
			got.add(frames, frames+folded)
			for range frames {
				all = append(all, all[len(all)-1]+1)
			}
			all[len(all)-1] += uint64(folded)
			want := all[max(len(all)-1-maxUnapplied, 0)]
			if got.before() != want || got.settled != all[len(all)-1] {
				t.Fatalf("after %d frames: %d and %d settled, want %d and %d", len(all)-1, got.before(), got.settled, want, all[len(all)-1])
			}
		}
	})
}
