package signals

import (
	"errors"
	"testing"
)

func TestEffectNames(t *testing.T) {
	for effect, want := range map[Effect]string{
		EffectGraceful: "graceful", EffectForce: "force", EffectAbandon: "abandon",
		EffectDuplicate: "duplicate", EffectNone: "none", EffectTooLate: "too_late",
	} {
		text, err := effect.MarshalText()
		if err != nil || string(text) != want || effect.String() != want {
			t.Errorf("Effect(%d): text %q, string %q, error %v; want %q", effect, text, effect, err, want)
		}
		var back Effect
		if err := back.UnmarshalText(text); err != nil || back != effect {
			t.Errorf("%q reads as %v (error %v), want %v", text, back, err, effect)
		}
	}
}

func TestEffectRefusesWhatIsNone(t *testing.T) {
	for effect, want := range map[Effect]string{0: "Effect(0)", EffectTooLate + 1: "Effect(7)"} {
		if got := effect.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
		if text, err := effect.MarshalText(); !isEffectError(err) {
			t.Errorf("%s marshals as %q (error %v), want an *EffectError", want, text, err)
		}
	}
	for _, text := range []string{"", "Graceful", "too late"} {
		effect := EffectForce
		if err := effect.UnmarshalText([]byte(text)); !isEffectError(err) || effect != EffectForce {
			t.Errorf("%q reads as %v (error %v), want an *EffectError and no change", text, effect, err)
		}
	}
}

func isEffectError(err error) bool {
	_, ok := errors.AsType[*EffectError](err)
	return ok
}
