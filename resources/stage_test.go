package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestStageEdges holds every pair of stages against the table in stage's comment.
func TestStageEdges(t *testing.T) {
	names := map[stage]string{stageBorrowed: "borrowed", stageOwned: "owned", stageStarted: "started", stageTerminal: "terminal",
		stageSucceeded: "succeeded"}
	got := map[string]bool{}
	for from := range names {
		for to := range names {
			s := from
			moved := s.advance(to)
			if moved != (s == to && from != to) || !moved && s != from {
				t.Errorf("%s -> %s: moved %t, now %s", names[from], names[to], moved, names[s])
			}
			if moved {
				got[names[from]+" -> "+names[to]] = true
			}
		}
	}
	want := map[string]bool{
		"owned -> started": true, "started -> terminal": true, "started -> succeeded": true,
		"owned -> terminal": true, "owned -> succeeded": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
}

func TestFlagsFollowTheChain(t *testing.T) {
	for s, want := range map[stage][4]bool{
		stageBorrowed:  {},
		stageOwned:     {true},
		stageStarted:   {true, true},
		stageTerminal:  {true, true, true},
		stageSucceeded: {true, true, true, true},
	} {
		if got := [4]bool{s.owned(), s.started(), s.terminal(), s.succeeded()}; got != want {
			t.Errorf("stage %d: owned, started, terminal, succeeded = %v, want %v", s, got, want)
		}
	}
}

// TestNoWalkRewritesAnEnd: from whatever is asked, an observed end stands and the flags never fall.
func TestNoWalkRewritesAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]stage{stageBorrowed, stageOwned}).Draw(t, "first")
		for _, to := range rapid.SliceOf(rapid.SampledFrom([]stage{stageBorrowed, stageOwned, stageStarted, stageTerminal, stageSucceeded})).Draw(t, "walk") {
			old := s
			s.advance(to)
			if s < old || old.terminal() && s != old || old == stageBorrowed && s != old {
				t.Fatalf("stage %d became %d", old, s)
			}
		}
	})
}
