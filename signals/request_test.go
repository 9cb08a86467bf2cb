package signals

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	intr = syscall.SIGINT
	term = syscall.SIGTERM
	quit = syscall.SIGQUIT
)

var requestNames = map[request]string{
	requestGraceful: "graceful", requestForce: "force", requestAbandon: "abandon",
	requestDuplicate: "duplicate", requestNothing: "nothing",
}

// arrival is one signal, or the application's own Force.
type arrival struct {
	at  int // ms
	sig syscall.Signal
	api bool
}

func judgeAll(second Second, arrivals []arrival) []string {
	var (
		seen   history
		api    bool
		judged []string
		start  time.Time
	)
	for _, a := range arrivals {
		if a.api {
			api = true
			continue
		}
		at := start.Add(time.Duration(a.at) * time.Millisecond)
		judged = append(judged, requestNames[seen.judge(a.sig, at, second, api)])
	}
	return judged
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		second   Second
		arrivals []arrival
		want     []string
	}{
		"SIGTERM again and again": {arrivals: []arrival{{at: 0, sig: term}, {at: 300, sig: term}, {at: 600, sig: term}, {at: 900, sig: term}},
			want: []string{"graceful", "force", "abandon", "abandon"}},
		"SIGINT, then SIGTERM at once": {arrivals: []arrival{{at: 0, sig: intr}, {at: 1, sig: term}, {at: 2, sig: quit}},
			want: []string{"graceful", "force", "abandon"}},
		"SIGQUIT first": {arrivals: []arrival{{at: 0, sig: quit}, {at: 1, sig: intr}},
			want: []string{"force", "abandon"}},
		"SIGQUIT first, the platform's SIGTERM on top": {arrivals: []arrival{{at: 0, sig: quit}, {at: 1, sig: term}},
			want: []string{"force", "abandon"}},
		"SIGQUIT second": {arrivals: []arrival{{at: 0, sig: term}, {at: 1, sig: quit}, {at: 500, sig: quit}},
			want: []string{"graceful", "force", "abandon"}},

		"a duplicate asks for nothing": {arrivals: []arrival{{at: 0, sig: term}, {at: 15, sig: term}, {at: 500, sig: term}},
			want: []string{"graceful", "duplicate", "force"}},
		"the window is open at its end": {arrivals: []arrival{{at: 0, sig: term}, {at: 199, sig: term}, {at: 200, sig: term}},
			want: []string{"graceful", "duplicate", "force"}},
		"duplicates do not prolong the window": {arrivals: []arrival{{at: 0, sig: term}, {at: 150, sig: term}, {at: 300, sig: term}, {at: 450, sig: term}, {at: 600, sig: term}},
			want: []string{"graceful", "duplicate", "force", "duplicate", "abandon"}},
		"each signal has a window of its own": {arrivals: []arrival{{at: 0, sig: term}, {at: 50, sig: quit}, {at: 100, sig: term}, {at: 150, sig: quit}},
			want: []string{"graceful", "force", "duplicate", "duplicate"}},
		"a duplicate of SIGQUIT does not abandon": {arrivals: []arrival{{at: 0, sig: quit}, {at: 15, sig: quit}},
			want: []string{"force", "duplicate"}},

		"after Force by api: the first SIGTERM does nothing new": {arrivals: []arrival{{api: true}, {at: 0, sig: term}, {at: 1, sig: intr}},
			want: []string{"graceful", "abandon"}},
		"after Force by api: a first SIGINT is an operator's": {arrivals: []arrival{{api: true}, {at: 0, sig: intr}},
			want: []string{"abandon"}},
		"after Force by api: so is SIGQUIT": {arrivals: []arrival{{api: true}, {at: 0, sig: quit}},
			want: []string{"abandon"}},
		"Force by api after a signal": {arrivals: []arrival{{at: 0, sig: term}, {api: true}, {at: 300, sig: term}},
			want: []string{"graceful", "abandon"}},

		"ignore: later ones do nothing": {second: SecondIgnore, arrivals: []arrival{{at: 0, sig: term}, {at: 300, sig: term}, {at: 301, sig: intr}, {at: 310, sig: intr}},
			want: []string{"graceful", "nothing", "nothing", "duplicate"}},
		"ignore: SIGQUIT forces, one more abandons": {second: SecondIgnore, arrivals: []arrival{{at: 0, sig: term}, {at: 300, sig: term}, {at: 301, sig: quit}, {at: 600, sig: term}},
			want: []string{"graceful", "nothing", "force", "abandon"}},
		"ignore: after Force by api": {second: SecondIgnore, arrivals: []arrival{{api: true}, {at: 0, sig: term}, {at: 300, sig: term}},
			want: []string{"graceful", "abandon"}},

		"an unknown signal does not count": {arrivals: []arrival{{at: 0, sig: syscall.SIGHUP}, {at: 1, sig: syscall.SIGHUP}, {at: 300, sig: intr}},
			want: []string{"nothing", "nothing", "graceful"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, judgeAll(c.second, c.arrivals)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestJudgeInAnyOrder holds what is judged against what was sent, in any order and at any pace.
func TestJudgeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		second := rapid.SampledFrom([]Second{SecondDefault, SecondForce, SecondIgnore}).Draw(t, "second")
		signals := rapid.SampledFrom([]os.Signal{intr, term, quit})
		gaps := rapid.SampledFrom([]int{0, 1, 15, 100, 199, 200, 201, 1000})

		var (
			seen     history
			at       time.Time
			api      bool
			accepted int
			graceful int
			forces   int
			arrived  = map[os.Signal]time.Time{} // last of its kind, duplicates too
		)
		for range rapid.IntRange(1, 12).Draw(t, "signals") {
			at = at.Add(time.Duration(gaps.Draw(t, "gap")) * time.Millisecond)
			api = api || rapid.IntRange(0, 9).Draw(t, "api force") == 0
			sig := signals.Draw(t, "signal")
			got := seen.judge(sig, at, second, api)

			last, again := arrived[sig]
			arrived[sig] = at
			lone := !again || at.Sub(last) >= duplicateWindow
			forcedBefore := forces > 0 || api
			if got != requestDuplicate {
				accepted++
			}
			switch got {
			case requestGraceful:
				graceful++
				if graceful > 1 || accepted > 1 || sig == quit {
					t.Fatalf("graceful for %v, accepted signal %d", sig, accepted)
				}
			case requestForce:
				forces++
				if forces > 1 {
					t.Fatal("force was asked for twice")
				}
				if sig != quit && (accepted == 1 || second == SecondIgnore) {
					t.Fatalf("force for %v, accepted signal %d, policy %d", sig, accepted, second)
				}
			case requestAbandon:
				if !forcedBefore {
					t.Fatal("abandon without a force before it")
				}
			case requestDuplicate:
				if lone {
					t.Fatalf("%v is called a duplicate, the last one was %v ago", sig, at.Sub(last))
				}
			case requestNothing:
				if second != SecondIgnore || sig == quit || forcedBefore || accepted == 1 {
					t.Fatalf("%v, accepted signal %d, asked for nothing under policy %d", sig, accepted, second)
				}
			default:
				t.Fatalf("no request: %d", got)
			}
			if accepted >= 3 && second != SecondIgnore && got != requestAbandon && got != requestDuplicate {
				t.Fatalf("accepted signal %d is %s: nobody can end this", accepted, requestNames[got])
			}
		}
	})
}
