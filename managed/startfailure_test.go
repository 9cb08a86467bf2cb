package managed_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
)

// Five start failures in a row are a fault; an ack between them begins the count anew.
func TestHandlerCannotBeStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		failsAt func(tag uint64) bool
		fault   bool
	}{
		"in a row":              {func(tag uint64) bool { return tag > 5 }, true},
		"with an ack each time": {func(tag uint64) bool { return tag%5 != 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: 1, OnError: managed.OnErrorReject,
					RequeueDelay: managed.NoRequeueDelay,
					Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
						if tc.failsAt(d.Tag) {
							return managed.Fail(managed.Permanent(&managed.ExecStartError{}))
						}
						return managed.Ack
					}}}})
				h.Publish("q", ids(40)...)
				h.Start()
				synctest.Wait()
				h.Stop()
				if d := h.Report(); (d.Trigger.Kind == report.TriggerFault) != tc.fault {
					t.Errorf("trigger %+v", d.Trigger)
				}
			})
		})
	}
}
