// Command minimal is the smallest whole program: one queue, one handler, one owned resource, and a process that ends with the
// report's exit code. It expects the queue "orders" on the broker that BROKER_URL names.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// order is what a message's body holds.
type order struct {
	ID string `json:"id"`
}

func main() {
	broker, err := rabbitmq.New(rabbitmq.Config{URL: os.Getenv("BROKER_URL"), ConnectionName: "minimal"})
	if err != nil {
		log.Fatal(err)
	}
	managed.Main(managed.Config{
		Service:   managed.Service{Name: "minimal"},
		Transport: broker,
		Lifecycle: managed.Lifecycle{ShutdownTimeout: 10 * time.Second},
		Report:    managed.Report{Dir: "reports"},
	}, setup)
}

func setup(_ context.Context, c *managed.Consumer) error {
	if err := c.Own("database", resources.Pool, func() error { return nil }); err != nil { // db.Close, pool.Close, …
		return err
	}
	return c.Subscribe(managed.Subscription{
		Queue: "orders", Prefetch: 64, Concurrency: 16, HandlerTimeout: 5 * time.Second, Handler: managed.JSON(handle),
	})
}

func handle(ctx context.Context, o order, _ *managed.Delivery) managed.Outcome {
	if o.ID == "" {
		return managed.Reject(errors.New("order without id"))
	}
	if err := save(ctx, o); err != nil {
		return managed.Requeue(err)
	}
	return managed.Ack
}

// save stands for the work.
func save(ctx context.Context, _ order) error { return context.Cause(ctx) }
