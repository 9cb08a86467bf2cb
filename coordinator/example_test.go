package coordinator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

// A loop that is told to finish, is given the force notice because it does not, and comes back then; and a pool that is closed
// after it.
func Example() {
	budget, err := deadline.New(deadline.Config{Total: 400 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	owned := resources.New()
	if err := owned.Own("postgres", resources.Pool, func() {}); err != nil {
		fmt.Println(err)
		return
	}
	back := make(chan struct{})
	c, err := coordinator.New(coordinator.Config{
		Budget: budget, Resources: owned,
		OnForce: func(report.ForceCause, time.Time, time.Time) { close(back) },
		Seal: func(r coordinator.Record) {
			for _, p := range r.Phases {
				for _, a := range p.Actions {
					fmt.Printf("%s %s: %s, %s\n", p.Phase, a.Name, a.Graceful, a.Forced)
				}
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	wait := func(ctx context.Context) error {
		select {
		case <-back:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := c.Register(coordinator.Action{Name: "loop", Phase: coordinator.PhaseDrain, Graceful: wait, Force: wait}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Initiate(coordinator.Trigger{Kind: report.TriggerAPI}))
	fmt.Println(c.Initiate(coordinator.Trigger{Kind: report.TriggerSignal, Detail: "SIGTERM"}))
	if err := c.Wait(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// graceful
	// none
	// drain loop: timed_out, completed
	// dispose postgres: completed, not_needed
}
