package managed_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
)

// A start that ends before it came to the directory of reports leaves its report there all the same.
func TestReportOfAStartThatEndedAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	h := managedtest.New(t, managed.Config{
		Report:        managed.Report{Dir: dir},
		Subscriptions: []managed.Subscription{{Queue: "orders", Handler: returns(managed.Ack)}},
	})
	errSetup := errors.New("no database")
	err := h.Consumer.RunWith(context.Background(), managed.RunConfig{
		Signals: make(chan osSignal), Setup: func(context.Context, *managed.Consumer) error { return errSetup },
	})
	if !errors.Is(err, errSetup) {
		t.Errorf("error %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d reports (%v), want one", len(entries), err)
	}
}
