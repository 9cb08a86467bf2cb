package signals

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// record is a Target that writes down what it is told.
type record struct {
	mu     sync.Mutex
	forced bool
	calls  []string
	start  time.Time
	onCall func(call string)
}

func (r *record) note(call string, sig os.Signal, at time.Time) {
	call = fmt.Sprintf("%v %s %v", at.Sub(r.start), call, sig)
	r.mu.Lock()
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	if r.onCall != nil {
		r.onCall(call)
	}
}

func (r *record) Graceful(sig os.Signal, at time.Time) Effect {
	r.note("graceful", sig, at)
	return EffectGraceful
}

func (r *record) Force(sig os.Signal, at time.Time) Effect {
	r.note("force", sig, at)
	return EffectForce
}

func (r *record) Abandon(sig os.Signal, at time.Time) Effect {
	r.note("abandon", sig, at)
	return EffectAbandon
}

func (r *record) Observed(sig os.Signal, at time.Time, effect Effect) {
	r.note("observed "+effect.String(), sig, at)
}

func (r *record) Forced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forced
}

func (r *record) forceByAPI() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forced = true
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func newMonitor(t *testing.T, ch <-chan os.Signal, target Target, second Second) *Monitor {
	t.Helper()
	m, err := New(Config{Signals: ch, Now: time.Now, Target: target, Second: second})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMonitorPassesEachSignalOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan os.Signal, pending)
		target := &record{start: time.Now()}
		m := newMonitor(t, ch, target, SecondDefault)
		m.Start()
		m.Start()

		for _, sig := range []os.Signal{term, term} {
			ch <- sig
			time.Sleep(15 * time.Millisecond)
		}
		time.Sleep(time.Second)
		ch <- intr
		ch <- quit
		synctest.Wait()
		m.Stop()
		<-m.Joined()

		want := []string{"0s graceful terminated", "15ms observed duplicate terminated", "1.03s force interrupt", "1.03s abandon quit"}
		if diff := cmp.Diff(want, target.all()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestMonitorKeepsToThePolicyAndAsksForForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan os.Signal, pending)
		target := &record{start: time.Now()}
		m := newMonitor(t, ch, target, SecondIgnore)
		m.Start()
		for _, sig := range []os.Signal{intr, term} {
			ch <- sig
			time.Sleep(time.Second)
		}
		target.forceByAPI()
		ch <- term
		synctest.Wait()
		m.Stop()
		<-m.Joined()

		want := []string{"0s graceful interrupt", "1s observed none terminated", "2s abandon terminated"}
		if diff := cmp.Diff(want, target.all()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestStopPassesOnWhatHasArrived: a signal and Stop that are both ready are no lottery.
func TestStopPassesOnWhatHasArrived(t *testing.T) {
	defer goleak.VerifyNone(t)
	for range 100 {
		ch := make(chan os.Signal, pending)
		ch <- term
		ch <- quit
		target := &record{}
		m := newMonitor(t, ch, target, SecondDefault)
		target.onCall = func(string) { m.Stop() }
		m.Start()
		<-m.Joined()
		ch <- quit
		if got := len(target.all()); got != 2 {
			t.Fatalf("%d signals were passed on, want the 2 that had arrived", got)
		}
	}
}

func TestMonitorEnds(t *testing.T) {
	for name, end := range map[string]func(m *Monitor, ch chan os.Signal){
		"stopped":                func(m *Monitor, _ chan os.Signal) { m.Start(); m.Stop() },
		"stopped twice":          func(m *Monitor, _ chan os.Signal) { m.Start(); m.Stop(); m.Stop() },
		"never started":          func(m *Monitor, _ chan os.Signal) { m.Stop() },
		"started after its stop": func(m *Monitor, _ chan os.Signal) { m.Stop(); m.Start() },
		"its channel closed":     func(m *Monitor, ch chan os.Signal) { m.Start(); close(ch) },
		"stopped, channel closed": func(m *Monitor, ch chan os.Signal) {
			close(ch)
			m.Start()
			m.Stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ch := make(chan os.Signal, 1)
				target := &record{}
				m := newMonitor(t, ch, target, SecondDefault)
				select {
				case <-m.Joined():
					t.Fatal("joined before it was stopped")
				default:
				}
				end(m, ch)
				<-m.Joined()
				if calls := target.all(); len(calls) > 0 {
					t.Errorf("calls without a signal: %q", calls)
				}
			})
		})
	}
}

// TestStopDoesNotWaitForTheTarget: a Target that breaks its promise and blocks costs no time of whoever stops.
func TestStopDoesNotWaitForTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, release := make(chan os.Signal, 1), make(chan struct{})
		target := &record{onCall: func(string) { <-release }}
		m := newMonitor(t, ch, target, SecondDefault)
		m.Start()
		ch <- term
		synctest.Wait()

		m.Stop()
		select {
		case <-m.Joined():
			t.Error("joined although the target has not returned")
		default:
		}
		close(release)
		<-m.Joined()
	})
}

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	good := Config{Signals: make(chan os.Signal), Now: time.Now, Target: &record{}}
	for field, spoil := range map[string]func(*Config){
		"Signals": func(c *Config) { c.Signals = nil },
		"Now":     func(c *Config) { c.Now = nil },
		"Target":  func(c *Config) { c.Target = nil },
		"Second":  func(c *Config) { c.Second = SecondIgnore + 1 },
	} {
		cfg := good
		spoil(&cfg)
		m, err := New(cfg)
		if wrong, ok := errors.AsType[*ConfigError](err); !ok || wrong.Field != field || m != nil {
			t.Errorf("without a good %s: %v, %v", field, m, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("a good Config: %v", err)
	}
}

func BenchmarkMonitorPass(b *testing.B) {
	m, err := New(Config{Signals: make(chan os.Signal), Now: time.Now, Target: muted{}})
	if err != nil {
		b.Fatal(err)
	}
	var seen history
	for b.Loop() {
		m.pass(&seen, term)
	}
}

type muted struct{}

func (muted) Graceful(os.Signal, time.Time) Effect  { return EffectGraceful }
func (muted) Force(os.Signal, time.Time) Effect     { return EffectForce }
func (muted) Abandon(os.Signal, time.Time) Effect   { return EffectAbandon }
func (muted) Forced() bool                          { return false }
func (muted) Observed(os.Signal, time.Time, Effect) {}
