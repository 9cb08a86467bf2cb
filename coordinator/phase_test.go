package coordinator_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/coordinator"
)

func TestPhaseText(t *testing.T) {
	want := []string{"close_admission", "drain", "force", "close_evidence", "dispose", "publish"}
	var got []string
	for p := coordinator.PhaseCloseAdmission; p <= coordinator.PhasePublish; p++ {
		text, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back coordinator.Phase
		if err := back.UnmarshalText(text); err != nil || back != p {
			t.Errorf("%s reads back as %s: %v", text, back, err)
		}
		got = append(got, string(text))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestPhaseThatDoesNotExist(t *testing.T) {
	for _, p := range []coordinator.Phase{0, coordinator.PhasePublish + 1} {
		if _, err := p.MarshalText(); err == nil {
			t.Errorf("%s was marshalled", p)
		} else if _, ok := errors.AsType[*coordinator.PhaseError](err); !ok {
			t.Errorf("%s: %v", p, err)
		}
	}
	if got := coordinator.Phase(9).String(); got != "Phase(9)" {
		t.Errorf("prints %q", got)
	}
	for _, text := range []string{"", "Drain", "phase", "Phase(2)"} {
		p := coordinator.PhaseDrain
		if _, ok := errors.AsType[*coordinator.PhaseError](p.UnmarshalText([]byte(text))); !ok || p != coordinator.PhaseDrain {
			t.Errorf("%q was read as %s", text, p)
		}
	}
}
