package signals

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Target is what a signal acts on. Its methods return what the request changed; they must not block. A Monitor calls them
// from one goroutine.
type Target interface {
	// Graceful asks for a shutdown: EffectGraceful if this was the first initiation, EffectNone if one was under way,
	// EffectTooLate after sealing.
	Graceful(sig os.Signal, at time.Time) Effect
	// Force asks for the force notice: EffectForce if this call gave it, EffectNone if it had been given already,
	// EffectTooLate if nothing was left unfinished or the report is sealed.
	Force(sig os.Signal, at time.Time) Effect
	// Abandon asks for the report to be sealed now: EffectAbandon, or EffectTooLate after sealing.
	Abandon(sig os.Signal, at time.Time) Effect
	// Forced reports whether force was asked for explicitly, by signal or api (a deadline's own force does not count).
	Forced() bool
	// Observed is told of each signal that asked for nothing: EffectDuplicate, or EffectNone under SecondIgnore and for a
	// signal that a Monitor does not know. Signals that reached one of the three methods above are not repeated here.
	Observed(sig os.Signal, at time.Time, effect Effect)
}

// Second says what a second SIGINT or SIGTERM does.
type Second uint8

// The policies. The zero Second means SecondForce.
const (
	SecondDefault Second = iota
	SecondForce          // it forces, and one after it abandons
	SecondIgnore         // it is recorded and does nothing; SIGQUIT still forces, and any signal after that abandons
)

// Config wires a Monitor.
type Config struct {
	// Signals delivers the signals; see [Notify]. The Monitor ends when it is closed. Required.
	Signals <-chan os.Signal
	// Now reads the clock. Required.
	Now func() time.Time
	// Second is the policy for a later signal. Zero means SecondForce.
	Second Second
	// Target is what the signals act on. Required.
	Target Target
}

// ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field   string // its Go name
	Problem string // "is required", or what is wrong with the value
}

// Error names the field and the problem.
func (e *ConfigError) Error() string { return "signals: Config." + e.Field + " " + e.Problem }

// Monitor passes each signal on to its Target: exactly one of Graceful, Force, Abandon and Observed per signal, in the order
// of arrival, with the instant at which the Monitor took it. Its methods are safe for concurrent use.
type Monitor struct {
	cfg    Config
	stop   chan struct{}
	joined chan struct{}

	mu    sync.Mutex
	state monitorState
}

// monitorState only grows: idle -> listening -> stopping, or idle -> stopping.
type monitorState uint8

const (
	idle monitorState = iota
	listening
	stopping
)

// New returns a Monitor that does not listen yet. It fails with *ConfigError.
func New(cfg Config) (*Monitor, error) {
	switch {
	case cfg.Signals == nil:
		return nil, &ConfigError{"Signals", "is required"}
	case cfg.Now == nil:
		return nil, &ConfigError{"Now", "is required"}
	case cfg.Target == nil:
		return nil, &ConfigError{"Target", "is required"}
	case cfg.Second > SecondIgnore:
		return nil, &ConfigError{"Second", fmt.Sprintf("is %d, which is no policy", uint8(cfg.Second))}
	}
	return &Monitor{cfg: cfg, stop: make(chan struct{}), joined: make(chan struct{})}, nil
}

// Start begins to listen. It does not block. It is idempotent, and after Stop it does nothing.
func (m *Monitor) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != idle {
		return
	}
	m.state = listening
	go m.listen()
}

// Stop ends listening: signals that have arrived by now are still passed on, later ones are not taken from Config.Signals. It
// does not block and does not wait; see Joined. It is legal in every state, from a Target's method too, and idempotent.
func (m *Monitor) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case idle:
		close(m.joined)
	case stopping:
		return
	}
	m.state = stopping
	close(m.stop)
}

// Joined is closed when the Monitor's goroutine has returned: after Stop, or after Config.Signals was closed. From then on no
// method of the Target is called. A Monitor that was never started has joined once it is stopped.
func (m *Monitor) Joined() <-chan struct{} { return m.joined }

// listen is owned by the Monitor and ends on Stop, or when the channel of signals is closed.
func (m *Monitor) listen() {
	defer close(m.joined)
	var seen history
	for {
		select {
		case sig, ok := <-m.cfg.Signals:
			if !ok {
				return
			}
			m.pass(&seen, sig)
		case <-m.stop:
			m.rest(&seen)
			return
		}
	}
}

// rest passes on what had arrived when the Monitor was stopped.
func (m *Monitor) rest(seen *history) {
	for range len(m.cfg.Signals) {
		select {
		case sig, ok := <-m.cfg.Signals:
			if !ok {
				return
			}
			m.pass(seen, sig)
		default: // somebody else took it
			return
		}
	}
}

// pass judges one signal and tells the Target.
func (m *Monitor) pass(seen *history, sig os.Signal) {
	at, target := m.cfg.Now(), m.cfg.Target
	switch seen.judge(sig, at, m.cfg.Second, target.Forced()) {
	case requestGraceful:
		target.Graceful(sig, at)
	case requestForce:
		target.Force(sig, at)
	case requestAbandon:
		target.Abandon(sig, at)
	case requestDuplicate:
		target.Observed(sig, at, EffectDuplicate)
	default:
		target.Observed(sig, at, EffectNone)
	}
}
