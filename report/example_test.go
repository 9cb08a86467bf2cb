package report_test

import (
	"fmt"
	"os"
	"time"

	"github.com/lastcall-go/lastcall/report"
)

// A report read back is verified, judged and shown with nothing but its bytes.
func Example() {
	raw, err := os.ReadFile("../testdata/reports/abandoned_handler.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := report.VerifyDigest(raw); err != nil {
		fmt.Println(err)
		return
	}
	d, err := report.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	code, reason := report.ExitCode(d)
	fmt.Println(code, reason, len(report.Check(d)))
	fmt.Print(report.Summary(d))
	// Output:
	// 3 drain_cut_short 0
	// lastcall: orders: incomplete, exit 3 (drain_cut_short); SIGTERM, force by deadline after 28 s, over after 29 s of 30 s
	// lastcall: messages unknown: 20 in hand = 3 acked + 16 handed_back + 1 abandoned
	// lastcall: error delivery_abandoned orders: the handler did not come back; the message may be handled twice: 1 delivery (and 2 more findings)
}

func ExampleSeal() {
	d := &report.ShutdownReport{
		ReportID: report.NewID(time.Date(2026, 11, 30, 17, 48, 1, 0, time.UTC)),
		Service:  report.Service{Name: "orders"},
		Trigger:  report.Trigger{Kind: report.TriggerAPI, At: report.At(time.Date(2026, 11, 30, 17, 48, 1, 0, time.UTC))},
		Resources: []report.Resource{{Name: "postgres", Kind: "pool", Owned: true, Started: true, Terminal: true,
			Error: report.NewError(fmt.Errorf("postgres://app:hunter2@db/orders: still in use"))}},
		RuntimeJoined: true,
	}
	if _, err := report.Seal(d); err != nil {
		fmt.Println(err)
	}
	fmt.Println(d.Completion, d.ExitCode, d.ExitReason)
	fmt.Println(d.Findings[0].Code, d.Findings[0].Subject, d.Findings[0].Text)
	// Output:
	// failed 1 failed
	// resource_failed postgres it ended with an error: postgres://app:***@db/orders: still in use
}
