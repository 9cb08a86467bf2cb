// Command blocked consumes the queue QUEUE at AMQP_URL with a handler that never returns, whatever its context says. Its total
// is TOTAL; its report goes to REPORTS.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

func main() {
	transport, err := rabbitmq.New(rabbitmq.Config{URL: os.Getenv("AMQP_URL")})
	if err != nil {
		panic(err)
	}
	total, err := time.ParseDuration(os.Getenv("TOTAL"))
	if err != nil {
		panic(err)
	}
	managed.Main(managed.Config{
		Service:   managed.Service{Name: "blocked"},
		Transport: transport,
		Lifecycle: managed.Lifecycle{ShutdownTimeout: total},
		Report:    managed.Report{Dir: os.Getenv("REPORTS")},
		Subscriptions: []managed.Subscription{{Queue: os.Getenv("QUEUE"), HandlerTimeout: time.Hour,
			Handler: func(context.Context, *managed.Delivery) managed.Outcome {
				fmt.Fprintln(os.Stderr, "started")
				waitForNothing()
				return managed.Ack
			}}},
	}, nil)
}

func waitForNothing() { select {} }
