package signals

import "fmt"

// Effect is what one signal changed.
type Effect uint8

// The effects. The zero Effect is invalid.
const (
	_               Effect = iota
	EffectGraceful         // the shutdown began
	EffectForce            // the force notice was given
	EffectAbandon          // the report was sealed with what was known
	EffectDuplicate        // the same signal had just been seen
	EffectNone             // what it asks for was under way already, or the policy ignores it
	EffectTooLate          // nothing was left that it could change
)

var effectNames = [...]string{
	EffectGraceful:  "graceful",
	EffectForce:     "force",
	EffectAbandon:   "abandon",
	EffectDuplicate: "duplicate",
	EffectNone:      "none",
	EffectTooLate:   "too_late",
}

// String returns the effect in lower_snake, as the report writes it.
func (e Effect) String() string {
	if e.valid() {
		return effectNames[e]
	}
	return fmt.Sprintf("Effect(%d)", uint8(e))
}

// MarshalText writes the name. It fails with *EffectError on an invalid effect.
func (e Effect) MarshalText() ([]byte, error) {
	if !e.valid() {
		return nil, &EffectError{Text: e.String()}
	}
	return []byte(effectNames[e]), nil
}

// UnmarshalText reads a name. It fails with *EffectError on any other text and leaves e as it was.
func (e *Effect) UnmarshalText(text []byte) error {
	for i, name := range effectNames {
		if i > 0 && name == string(text) {
			*e = Effect(i)
			return nil
		}
	}
	return &EffectError{Text: string(text)}
}

func (e Effect) valid() bool { return e > 0 && int(e) < len(effectNames) }

// EffectError says that a text names no effect.
type EffectError struct{ Text string }

// Error names the text.
func (e *EffectError) Error() string { return fmt.Sprintf("signals: no effect is called %q", e.Text) }
