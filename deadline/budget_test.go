package deadline_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/deadline"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// offsets is Instants relative to the start.
type offsets struct {
	Reserve, Graceful, Force, Close, Dispose, Telemetry, Hard time.Duration
}

func offsetsOf(in deadline.Instants) offsets {
	return offsets{
		Reserve:   in.Reserve,
		Graceful:  in.Graceful.Sub(in.Start),
		Force:     in.Force.Sub(in.Start),
		Close:     in.Close.Sub(in.Start),
		Dispose:   in.Dispose.Sub(in.Start),
		Telemetry: in.Telemetry.Sub(in.Start),
		Hard:      in.Hard.Sub(in.Start),
	}
}

func budget(t interface {
	Helper()
	Fatal(...any)
}, cfg deadline.Config) deadline.Budget {
	t.Helper()
	b, err := deadline.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPlanIsTheTable(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  deadline.Config
		want offsets
	}{
		"1 s": {deadline.Config{Total: time.Second},
			offsets{250 * ms, 750 * ms, 937500 * us, 953125 * us, 968750 * us, 984375 * us, time.Second}},
		"4 s": {deadline.Config{Total: 4 * time.Second},
			offsets{time.Second, 3000 * ms, 3750 * ms, 3812500 * us, 3875 * ms, 3950 * ms, 4 * time.Second}},
		"8 s": {deadline.Config{Total: 8 * time.Second},
			offsets{2 * time.Second, 6000 * ms, 7000 * ms, 7375 * ms, 7750 * ms, 7950 * ms, 8 * time.Second}},
		"30 s": {deadline.Config{Total: 30 * time.Second},
			offsets{2 * time.Second, 28000 * ms, 29000 * ms, 29375 * ms, 29750 * ms, 29950 * ms, 30 * time.Second}},
		"defaults are 30 s and 1 s": {deadline.Config{},
			offsets{2 * time.Second, 28000 * ms, 29000 * ms, 29375 * ms, 29750 * ms, 29950 * ms, 30 * time.Second}},
		"the shortest": {deadline.Config{Total: 250 * ms},
			offsets{62500 * us, 187500 * us, 234375 * us, 238281250, 242187500, 246093750, 250 * ms}},
		"a narrow window": {deadline.Config{Total: 8 * time.Second, ForceWindow: 100 * ms},
			offsets{2 * time.Second, 6000 * ms, 6100 * ms, 6925 * ms, 7750 * ms, 7950 * ms, 8 * time.Second}},
		"a window wider than the reserve": {deadline.Config{Total: 8 * time.Second, ForceWindow: time.Hour},
			offsets{2 * time.Second, 6000 * ms, 7500 * ms, 7625 * ms, 7750 * ms, 7950 * ms, 8 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, offsetsOf(budget(t, tc.cfg).Plan(epoch))); diff != "" {
				t.Errorf("instants (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBudgetAccessorsAgreeWithThePlan(t *testing.T) {
	b := budget(t, deadline.Config{Total: 4 * time.Second, ForceWindow: 300 * ms})
	got := []time.Duration{b.Total(), b.ForceWindow(), b.Reserve(), b.Graceful()}
	want := []time.Duration{4 * time.Second, 300 * ms, time.Second, 3 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewRefusesWhatIsOutOfRange(t *testing.T) {
	total := func(got time.Duration) *deadline.RangeError {
		return &deadline.RangeError{Field: "shutdown timeout", Got: got, Min: 250 * ms, Max: 24 * time.Hour}
	}
	window := func(got time.Duration) *deadline.RangeError {
		return &deadline.RangeError{Field: "force window", Got: got, Min: 1, Max: 24 * time.Hour}
	}
	for name, tc := range map[string]struct {
		cfg  deadline.Config
		want *deadline.RangeError
	}{
		"total just long enough":  {deadline.Config{Total: 250 * ms}, nil},
		"total just short enough": {deadline.Config{Total: 24 * time.Hour, ForceWindow: 24 * time.Hour}, nil},
		"total too short":         {deadline.Config{Total: 250*ms - 1}, total(250*ms - 1)},
		"total too long":          {deadline.Config{Total: 24*time.Hour + 1}, total(24*time.Hour + 1)},
		"total negative":          {deadline.Config{Total: -time.Second}, total(-time.Second)},
		"total at the end of int": {deadline.Config{Total: math.MaxInt64}, total(math.MaxInt64)},
		"window negative":         {deadline.Config{ForceWindow: -1}, window(-1)},
		"window too long":         {deadline.Config{ForceWindow: 24*time.Hour + 1}, window(24*time.Hour + 1)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := deadline.New(tc.cfg)
			got, _ := errors.AsType[*deadline.RangeError](err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// anyBudget draws every legal total and force window, the ends of both ranges included, to the nanosecond.
var anyBudget = rapid.Custom(func(t *rapid.T) deadline.Budget {
	return budget(t, deadline.Config{
		Total:       time.Duration(rapid.Int64Range(int64(deadline.MinTotal), int64(deadline.MaxTotal)).Draw(t, "total")),
		ForceWindow: time.Duration(rapid.Int64Range(0, int64(deadline.MaxTotal)).Draw(t, "window")),
	})
})

// ordered fails if the instants are not in the order the phases need.
func ordered(t *rapid.T, in deadline.Instants) {
	t.Helper()
	seq := []struct {
		name string
		at   time.Time
	}{
		{"start", in.Start}, {"graceful", in.Graceful}, {"F(graceful)", in.Force}, {"C", in.Close}, {"D", in.Dispose},
		{"telemetry", in.Telemetry}, {"hard", in.Hard},
	}
	for i, next := range seq[1:] {
		if next.at.Before(seq[i].at) {
			t.Fatalf("%s comes before %s: %+v", next.name, seq[i].name, offsetsOf(in))
		}
	}
}

func TestInstantsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBudget.Draw(t, "budget")
		in := b.Plan(epoch)
		ordered(t, in)
		if got := in.Hard.Sub(in.Start); got != b.Total() {
			t.Fatalf("hard at %s of a total of %s", got, b.Total())
		}
		if in.Force.Equal(in.Graceful) || in.Close.Equal(in.Dispose) {
			t.Fatalf("the force phase or the disposal has no share: %+v", offsetsOf(in))
		}
	})
}
