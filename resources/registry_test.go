package resources_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

var (
	epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	errIO = errors.New("the disk is full")
)

const ms = time.Millisecond

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failure is how err stands in a report.
func failure(class, text string) *report.Error { return &report.Error{Class: class, Text: text} }

type pointerCloser struct{ closed int }

func (c *pointerCloser) Close() error { c.closed++; return nil }

type quietCloser struct{ closed *int }

func (c quietCloser) Close() { *c.closed++ }

// server has both ways to end; the one that takes a context is meant.
type server struct{ shut *int }

func (s server) Shutdown(context.Context) error { *s.shut++; return nil }
func (s server) Close() error                   { return errIO }

func TestOwnRefuses(t *testing.T) {
	var nilFunc func()
	var nilCancel context.CancelFunc
	var nilCloser *pointerCloser
	closer := func() {}
	for name, tc := range map[string]struct {
		name   string
		closer any
		opts   []resources.Option
		want   error
	}{
		"no name":              {"", closer, nil, resources.ErrName},
		"a name that is taken": {"taken", closer, nil, resources.ErrDuplicate},
		"nil":                  {"a", nil, nil, resources.ErrCloser},
		"a nil func":           {"a", nilFunc, nil, resources.ErrCloser},
		"a nil named func":     {"a", nilCancel, nil, resources.ErrCloser},
		"a typed nil":          {"a", nilCloser, nil, resources.ErrCloser},
		"a string":             {"a", "close me", nil, resources.ErrCloser},
		"a func of other type": {"a", func(int) error { return nil }, nil, resources.ErrCloser},
		"a negative limit":     {"a", closer, []resources.Option{resources.Limit(-1)}, resources.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			r := resources.New()
			must(t, r.Borrow("taken", resources.Pool))
			if err := r.Own(tc.name, resources.Pool, tc.closer, tc.opts...); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := len(r.Report(epoch)); got != 1 {
				t.Errorf("%d resources are registered, want the one from before", got)
			}
		})
	}
}

func TestFreezeEndsRegistration(t *testing.T) {
	r := resources.New()
	r.Freeze()
	r.Freeze()
	if err := r.Own("a", resources.Pool, func() {}); !errors.Is(err, resources.ErrStopping) {
		t.Errorf("Own: %v, want %v", err, resources.ErrStopping)
	}
	if err := r.Borrow("a", resources.Pool); !errors.Is(err, resources.ErrStopping) {
		t.Errorf("Borrow: %v, want %v", err, resources.ErrStopping)
	}
	if _, err := r.Track("a", resources.Connection); err != nil {
		t.Errorf("Track of a start in progress: %v", err)
	}
	if _, err := r.Track("a", resources.Connection); !errors.Is(err, resources.ErrDuplicate) {
		t.Errorf("Track of a taken name: %v, want %v", err, resources.ErrDuplicate)
	}
	if _, err := r.Track("", resources.Connection); !errors.Is(err, resources.ErrName) {
		t.Errorf("Track without a name: %v, want %v", err, resources.ErrName)
	}
}

func TestReportKeepsTheOrderOfAcquisition(t *testing.T) {
	r := resources.New()
	must(t, r.Own("pool", resources.Pool, func() {}, resources.Advisory()))
	must(t, r.Borrow("cache", ""))
	_, err := r.Track("connection", resources.Connection)
	must(t, err)
	none := []report.Evidence{}
	want := []report.Resource{
		{Name: "pool", Kind: "pool", Owned: true, Advisory: true, Evidence: none},
		{Name: "cache", Kind: "other", Evidence: none},
		{Name: "connection", Kind: "connection", Owned: true, Evidence: none},
	}
	if diff := cmp.Diff(want, r.Report(epoch)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestTrackedTellsItsEnd(t *testing.T) {
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	for name, tc := range map[string]struct {
		tell func(*resources.Tracked)
		want report.Resource
	}{
		"nothing": {func(*resources.Tracked) {}, report.Resource{Owned: true}},
		"ended as it should": {func(t *resources.Tracked) {
			t.Begin(at(10 * ms))
			t.Observe("close_ok", at(12*ms), "")
			t.End(at(13*ms), nil)
		}, report.Resource{Owned: true, Started: true, Terminal: true, Succeeded: true, BeganTUS: 10000, ElapsedUS: 3000,
			Evidence: []report.Evidence{{Kind: "close_ok", TUS: 12000}}}},
		"ended badly": {func(t *resources.Tracked) {
			t.Begin(at(10 * ms))
			t.End(at(13*ms), errIO)
		}, report.Resource{Owned: true, Started: true, Terminal: true, BeganTUS: 10000, ElapsedUS: 3000,
			Error: failure("*errors.errorString", "the disk is full")}},
		"ended by itself": {func(t *resources.Tracked) { t.End(at(13*ms), nil) },
			report.Resource{Owned: true, Started: true, Terminal: true, Succeeded: true, BeganTUS: 13000}},
		"panicked": {func(t *resources.Tracked) {
			t.Begin(at(1 * ms))
			t.EndPanicked(at(2*ms), "boom")
		}, report.Resource{Owned: true, Started: true, Terminal: true, Panicked: true, BeganTUS: 1000, ElapsedUS: 1000,
			Error: failure("*resources.PanicError", "panic: boom")}},
		"the first end wins": {func(t *resources.Tracked) {
			t.End(at(1*ms), errIO)
			t.Begin(at(2 * ms))
			t.End(at(3*ms), nil)
			t.EndPanicked(at(4*ms), "boom")
		}, report.Resource{Owned: true, Started: true, Terminal: true, BeganTUS: 1000,
			Error: failure("*errors.errorString", "the disk is full")}},
		"the first beginning wins": {func(t *resources.Tracked) {
			t.Begin(at(1 * ms))
			t.Begin(at(2 * ms))
			t.End(at(3*ms), nil)
		}, report.Resource{Owned: true, Started: true, Terminal: true, Succeeded: true, BeganTUS: 1000, ElapsedUS: 2000}},
		"evidence moves no flag": {func(t *resources.Tracked) {
			t.Observe("cut", at(-5*ms), "token=abcdef")
		}, report.Resource{Owned: true, Evidence: []report.Evidence{{Kind: "cut", TUS: -5000, Detail: report.Redact("token=abcdef")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := resources.New()
			tracked, err := r.Track("x", resources.Connection)
			must(t, err)
			tc.tell(tracked)
			tc.want.Name, tc.want.Kind = "x", "connection"
			if tc.want.Evidence == nil {
				tc.want.Evidence = []report.Evidence{}
			}
			if diff := cmp.Diff([]report.Resource{tc.want}, r.Report(epoch)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDropLeavesTheRegistry(t *testing.T) {
	r := resources.New()
	first, err := r.Track("connection", resources.Connection)
	must(t, err)
	first.Drop()
	second, err := r.Track("connection", resources.Connection)
	must(t, err)
	first.Drop()
	first.End(epoch, nil)
	second.Begin(epoch)
	second.End(epoch.Add(ms), errIO)
	want := []report.Resource{{Name: "connection", Kind: "connection", Owned: true, Started: true, Terminal: true, ElapsedUS: 1000,
		Error: failure("*errors.errorString", "the disk is full"), Evidence: []report.Evidence{}}}
	if diff := cmp.Diff(want, r.Report(epoch)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestReportIsACopy(t *testing.T) {
	r := resources.New()
	tracked, err := r.Track("x", resources.Connection)
	must(t, err)
	tracked.Observe("cancel_ok", epoch, "")
	tracked.End(epoch, errIO)
	before := r.Report(epoch)
	before[0].Error.Text, before[0].Evidence[0].Kind = "changed", "changed"
	sealed := r.Report(epoch)
	tracked.Observe("close_ok", epoch, "")
	want := []report.Resource{{Name: "x", Kind: "connection", Owned: true, Started: true, Terminal: true,
		Error: failure("*errors.errorString", "the disk is full"), Evidence: []report.Evidence{{Kind: "cancel_ok"}}}}
	if diff := cmp.Diff(want, sealed); diff != "" {
		t.Errorf("the report changed after it was taken (-want +got):\n%s", diff)
	}
}

func TestEvidenceIsCapped(t *testing.T) {
	r := resources.New()
	tracked, err := r.Track("x", resources.Connection)
	must(t, err)
	for i := range 100 {
		tracked.Observe(fmt.Sprint(i), epoch.Add(time.Duration(i)*ms), "")
	}
	var want []report.Evidence
	for i := range 100 {
		switch {
		case i < 16 || i >= 84:
			want = append(want, report.Evidence{Kind: fmt.Sprint(i), TUS: int64(i) * 1000})
		case i == 83:
			want = append(want, report.Evidence{Kind: "omitted", TUS: 83000, Detail: "68 more"})
		}
	}
	if diff := cmp.Diff(want, r.Report(epoch)[0].Evidence); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}
