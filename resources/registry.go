package resources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/report"
)

// Kind says what sort of thing a resource is. Applications may use words of their own; empty means Other.
type Kind string

// The kinds Lastcall knows.
const (
	Channel    Kind = "channel"
	Connection Kind = "connection"
	Pool       Kind = "pool"
	Provider   Kind = "provider"
	Monitor    Kind = "monitor"
	Task       Kind = "task"
	Runtime    Kind = "runtime"
	Other      Kind = "other"
)

// Errors of registration.
var (
	// ErrStopping: a shutdown has begun and nothing can be registered any more.
	ErrStopping = errors.New("resources: the shutdown has begun")
	// ErrName: the name is empty.
	ErrName = errors.New("resources: a resource needs a name")
	// ErrDuplicate: another resource has the name.
	ErrDuplicate = errors.New("resources: the name is taken")
	// ErrLimit: a closer's limit is negative.
	ErrLimit = errors.New("resources: a closer's limit must not be negative")
)

// Option qualifies a resource.
type Option func(*options)

type options struct {
	advisory, telemetry, independent bool
	limit                            time.Duration
}

// Advisory resources are reported like all others, but how they end changes neither completion nor exit code.
func Advisory() Option { return func(o *options) { o.advisory = true } }

// Telemetry is disposed after everything else, in the tail of the budget kept for it. It is not advisory by itself, and is
// withheld like everything else that is not Independent.
func Telemetry() Option { return func(o *options) { o.telemetry = true } }

// Limit bounds the closer; it gets no more than its share of what is left in any case. Zero means 5 s.
func Limit(d time.Duration) Option { return func(o *options) { o.limit = d } }

// Independent says that handlers and tasks do not use the resource: it is closed even while one of them still runs.
func Independent() Option { return func(o *options) { o.independent = true } }

// Registry holds the resources of one consumer in order of acquisition. It is safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	items    []*item
	frozen   bool
	disposed bool
}

// item is one resource. Its fields are guarded by the registry's lock, but for those that registration sets for good.
type item struct {
	name  string
	kind  Kind
	opts  options
	close func(context.Context) error // set by Own alone

	stage        stage
	began, ended time.Time
	gaveUp       time.Time // when the disposal stopped waiting for it; zero if it did not
	withheldBy   string
	panicked     bool
	failure      *report.Error
	evidence     evidence
}

// New returns an empty registry.
func New() *Registry { return &Registry{} }

// Own takes over something that Dispose will end, once. closer is an io.Closer, a func(), func() error or
// func(context.Context) error, or has Shutdown(context.Context) error or Close(); the context ends shortly before the closer's
// time does. Shutdown comes before Close where a type has both.
//
// It does not block. Errors: ErrStopping after Freeze, ErrName, ErrDuplicate, ErrLimit, and ErrCloser for a nil closer or one of
// another type. The closer is not called in any of these cases.
func (r *Registry) Own(name string, kind Kind, closer any, opts ...Option) error {
	end, err := closing(closer)
	if err != nil {
		return fmt.Errorf("resource %q: %w", name, err)
	}
	it := newItem(name, kind, stageOwned, opts)
	it.close = end
	return r.add(it, onlyOpen)
}

// Borrow names something that is used and belongs to someone else: it is never touched and all its flags stay false. It does
// not block. Errors: ErrStopping after Freeze, ErrName, ErrDuplicate.
func (r *Registry) Borrow(name string, kind Kind) error {
	return r.add(newItem(name, kind, stageBorrowed, nil), onlyOpen)
}

// Track names something of ours that is ended elsewhere: its end is told through the Tracked. Of the options only Advisory
// says anything about it. It is legal after Freeze too, since a start may be in progress. It does not block. Errors: ErrName,
// ErrDuplicate.
func (r *Registry) Track(name string, kind Kind, opts ...Option) (*Tracked, error) {
	it := newItem(name, kind, stageOwned, opts)
	if err := r.add(it, alsoFrozen); err != nil {
		return nil, err
	}
	return &Tracked{registry: r, item: it}, nil
}

// Freeze ends registration: from now on Own and Borrow return ErrStopping. It is idempotent and does not block.
func (r *Registry) Freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

func newItem(name string, kind Kind, s stage, opts []Option) *item {
	it := &item{name: name, kind: kind, stage: s}
	if it.kind == "" {
		it.kind = Other
	}
	for _, opt := range opts {
		opt(&it.opts)
	}
	return it
}

// admission says in which states of the registry something may be added.
type admission bool

const (
	onlyOpen   admission = false
	alsoFrozen admission = true
)

func (r *Registry) add(it *item, when admission) error {
	var err error
	switch {
	case it.name == "":
		err = ErrName
	case it.opts.limit < 0:
		err = ErrLimit
	default:
		err = r.insert(it, when)
	}
	if err != nil {
		return fmt.Errorf("resource %q: %w", it.name, err)
	}
	return nil
}

func (r *Registry) insert(it *item, when admission) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen && when == onlyOpen {
		return ErrStopping
	}
	if slices.ContainsFunc(r.items, func(other *item) bool { return other.name == it.name }) {
		return ErrDuplicate
	}
	r.items = append(r.items, it)
	return nil
}

func (r *Registry) remove(it *item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = slices.DeleteFunc(r.items, func(other *item) bool { return other == it })
}

// Report returns every resource in order of acquisition, with instants as offsets from anchor, the trigger. It is a copy: what
// is observed later changes nothing in it.
func (r *Registry) Report(anchor time.Time) []report.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]report.Resource, 0, len(r.items))
	for _, it := range r.items {
		rows = append(rows, it.row(anchor))
	}
	return rows
}
