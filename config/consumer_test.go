package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/signals"
	"github.com/lastcall-go/lastcall/transport"
)

func TestConsumer(t *testing.T) {
	const text = `
service = { name = "orders", labels = { zone = "a" } }
lifecycle = { shutdown_timeout = "20s", force_window = "500ms", platform_grace = "30s", platform_prestop = "3s", start_retry = "1m" }
signals.second = "ignore"
broker = { kind = "memory", reconnect_max = "2s", give_up_after = "1h" }
report = { dir = "reports", keep = 7 }
[[subscription]]
queue = "orders"
declare = "quorum"
arguments = { x-delivery-limit = 20 }
exclusive = true
consumer_tag = "tag"
prefetch = 8
concurrency = 2
handler_timeout = "5s"
drain = "hand_back"
max_body_bytes = 1000
exec = ["true"]
term_exit_zero = "ack"
on_error = "reject"
requeue_delay = "2s"
duplicate_start = "hand_back"
[[subscription]]
queue = "few"
exec = ["true"]
requeue_delay = "0s"
duplicate_start = "allow"
drain = "ordered"
declare = "classic"
[[subscription]]
queue = "many"
exec = ["true"]
concurrency = 5
drain = "finish_prefetched"
[[subscription]]
queue = "very many"
exec = ["true"]
concurrency = 20_000
`
	f, err := Parse("x.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := f.Consumer()
	for i := range got.Subscriptions {
		if got.Subscriptions[i].Handler == nil {
			t.Errorf("subscription %d has no handler", i)
		}
		got.Subscriptions[i].Handler = nil
	}
	want := managed.Config{
		Service: managed.Service{Name: "orders", Labels: map[string]string{"zone": "a"}},
		Lifecycle: managed.Lifecycle{ShutdownTimeout: 20 * time.Second, ForceWindow: 500 * time.Millisecond,
			PlatformGrace: 30 * time.Second, PlatformPrestop: 3 * time.Second},
		SecondSignal: signals.SecondIgnore,
		Report:       managed.Report{Dir: "reports", Keep: 7},
		Reconnect:    managed.Reconnect{Max: 2 * time.Second, GiveUpAfter: time.Hour},
		StartRetry:   time.Minute,
		Digest:       f.Digest,
		Subscriptions: []managed.Subscription{
			{Queue: "orders", Declare: transport.DeclareQuorum, Arguments: map[string]any{"x-delivery-limit": int64(20)}, Exclusive: true,
				ConsumerTag: "tag", Prefetch: 8, Concurrency: 2, HandlerTimeout: 5 * time.Second, Drain: managed.DrainHandBack,
				MaxBodyBytes: 1000, OnError: managed.OnErrorReject, RequeueDelay: 2 * time.Second,
				DuplicateStart: managed.DuplicateStartHandBack},
			{Queue: "few", Declare: transport.DeclareClassic, Prefetch: 16, Concurrency: 1, HandlerTimeout: 18 * time.Second,
				Drain: managed.DrainOrdered, OnError: managed.OnErrorRequeue, RequeueDelay: managed.NoRequeueDelay,
				DuplicateStart: managed.DuplicateStartAllow},
			{Queue: "many", Declare: transport.DeclarePassive, Prefetch: 20, Concurrency: 5, HandlerTimeout: 18 * time.Second,
				Drain: managed.DrainFinishPrefetched, OnError: managed.OnErrorRequeue, RequeueDelay: time.Second,
				DuplicateStart: managed.DuplicateStartHold},
			{Queue: "very many", Declare: transport.DeclarePassive, Prefetch: 65535, Concurrency: 20_000, HandlerTimeout: 18 * time.Second,
				Drain: managed.DrainAuto, OnError: managed.OnErrorRequeue, RequeueDelay: time.Second,
				DuplicateStart: managed.DuplicateStartHold},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("consumer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(deadline.Config{Total: 20 * time.Second, ForceWindow: 500 * time.Millisecond}, f.Lifecycle.Deadline()); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}

// TestWordsHaveMeanings: every word of every enumeration means something of its own.
func TestWordsHaveMeanings(t *testing.T) {
	for name, n := range map[string][2]int{
		"second": distinct(seconds), "declare": distinct(declares), "drain": distinct(drains), "on_error": distinct(onErrors), "duplicate_start": distinct(duplicates),
		"term_exit_zero": distinct(exitZero),
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d words with %d meanings", name, n[0], n[1])
		}
	}
}

func distinct[T comparable](w words[T]) [2]int {
	means := make(map[T]bool)
	for _, word := range w.list() {
		means[w.of(word)] = true
	}
	var none T
	delete(means, none)
	return [2]int{len(w), len(means)}
}
