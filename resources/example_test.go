package resources_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/resources"
)

// What was acquired first is ended last, and whatever one closer does the next one runs.
func ExampleRegistry_Dispose() {
	budget, err := deadline.New(deadline.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	owned := resources.New()
	err = errors.Join(
		owned.Own("postgres", resources.Pool, func() error { return nil }),
		owned.Own("cache", resources.Pool, func() error { return errors.New("connection reset") }),
		owned.Borrow("http", resources.Other),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range owned.Dispose(context.Background(), resources.Plan{Root: budget.Anchor(deadline.Now())}) {
		fmt.Println(d.Name, d.Outcome, d.Err)
	}
	for _, r := range owned.Report(deadline.Now()) {
		fmt.Println(r.Name, r.Owned, r.Started, r.Terminal, r.Succeeded)
	}
	// Output:
	// cache failed connection reset
	// postgres completed <nil>
	// postgres true true true true
	// cache true true true false
	// http false false false false
}
