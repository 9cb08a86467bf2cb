package rabbitmq

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Against the whole list of frames.
func TestTailRemembersTheFrameBeforeTheLast32(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got tail
		all := []mark{{}}
		at := time.Unix(1000, 0)
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			frames := rapid.IntRange(1, 40).Draw(t, "frames")
			settlements := frames + rapid.IntRange(0, 5).Draw(t, "folded")
			at = at.Add(time.Second)
			got.add(frames, settlements, at)
			for i := range frames {
				n := all[len(all)-1].settled + 1
				if i == frames-1 {
					n += uint64(settlements - frames)
				}
				all = append(all, mark{n, at})
			}
			want := mark{}
			if n := len(all) - 1 - maxUnapplied; n > 0 {
				want = all[n]
			}
			if got.before() != want || got.settled != all[len(all)-1].settled {
				t.Fatalf("after %d frames: %v and %d settled, want %v and %d", len(all)-1, got.before(), got.settled, want, all[len(all)-1].settled)
			}
		}
	})
}
