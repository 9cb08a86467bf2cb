package coordinator

import "fmt"

// Phase is one part of a shutdown. There is one order, and each phase runs once:
//
//	close_admission -> drain -> force -> close_evidence -> dispose -> publish
type Phase uint8

// The phases. The zero Phase is none of them: no shutdown has begun.
const (
	_ Phase = iota
	PhaseCloseAdmission
	PhaseDrain
	PhaseForce
	PhaseCloseEvidence
	PhaseDispose
	PhasePublish
)

var phaseNames = [...]string{"", "close_admission", "drain", "force", "close_evidence", "dispose", "publish"}

func (p Phase) known() bool { return p >= PhaseCloseAdmission && p <= PhasePublish }

// String returns the phase in lower_snake, Phase(9) for one that does not exist.
func (p Phase) String() string {
	if p.known() {
		return phaseNames[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// PhaseError says that a text or a value names no phase.
type PhaseError struct{ Got string }

// Error names it.
func (e *PhaseError) Error() string { return fmt.Sprintf("coordinator: there is no phase %q", e.Got) }

// MarshalText returns String, and a *PhaseError for a phase that does not exist.
func (p Phase) MarshalText() ([]byte, error) {
	if !p.known() {
		return nil, &PhaseError{p.String()}
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads what MarshalText wrote; it returns a *PhaseError for anything else.
func (p *Phase) UnmarshalText(text []byte) error {
	for q := PhaseCloseAdmission; q <= PhasePublish; q++ {
		if q.String() == string(text) {
			*p = q
			return nil
		}
	}
	return &PhaseError{string(text)}
}
