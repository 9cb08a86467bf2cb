package report_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
)

type namedError struct{ error }

func (namedError) ErrorClass() string { return "orders.ErrOutOfStock" }

type circular struct{}

func (c circular) Error() string { return "round" }
func (c circular) Unwrap() error { return c }

type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }
func (e *nilError) Unwrap() error { return e.cause }

func TestNewError(t *testing.T) {
	_, notFound := os.Open("/nowhere/to/be/found")
	_, unparsable := url.Parse("amqp://guest:p" + strings.Repeat("%z", 2) + "@mq/")
	for name, tc := range map[string]struct {
		err  error
		want *report.Error
	}{
		"nil":        {nil, nil},
		"plain":      {errors.New("no"), &report.Error{Class: "*errors.errorString", Text: "no"}},
		"wrapped":    {fmt.Errorf("save: %w", errorOf("no")), &report.Error{Class: "report_test.errorOf", Text: "save: no"}},
		"cancelled":  {fmt.Errorf("save: %w", context.Canceled), &report.Error{Class: "context.Canceled", Text: "save: context canceled"}},
		"deadline":   {context.DeadlineExceeded, &report.Error{Class: "context.DeadlineExceeded", Text: "context deadline exceeded"}},
		"sentinel":   {&net.OpError{Op: "read", Err: io.EOF}, &report.Error{Class: "io.EOF", Text: "read: EOF"}},
		"errno":      {notFound, &report.Error{Class: "syscall.Errno", Text: "open /nowhere/to/be/found: no such file or directory"}},
		"joined":     {errors.Join(errorOf("one"), io.EOF), &report.Error{Class: "report_test.errorOf", Text: "one EOF"}},
		"named":      {fmt.Errorf("save: %w", namedError{errorOf("no")}), &report.Error{Class: "orders.ErrOutOfStock", Text: "save: no"}},
		"circular":   {circular{}, &report.Error{Class: "report_test.circular", Text: "round"}},
		"panics":     {(*nilError)(nil), &report.Error{Class: "*report_test.nilError", Text: "(the Error method of *report_test.nilError panicked)"}},
		"unparsable": {unparsable, &report.Error{Class: "url.EscapeError", Text: "parse (withheld): invalid URL escape (withheld)"}},
		"a secret":   {errorOf("dial amqp://guest:hunter2@mq: refused"), &report.Error{Class: "report_test.errorOf", Text: "dial amqp://guest:***@mq: refused"}},
	} {
		if diff := cmp.Diff(tc.want, report.NewError(tc.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := report.Class(nil); got != "" {
		t.Errorf("class of nil is %q", got)
	}
}
