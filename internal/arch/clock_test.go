package arch

import (
	"fmt"
	"go/ast"
	"path"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clock is what reads or waits for the clock, by import path and name.
var clock = map[string]map[string]bool{
	"time": {"Now": true, "After": true, "AfterFunc": true, "NewTicker": true, "NewTimer": true, "Since": true, "Sleep": true,
		"Tick": true, "Until": true},
	"context": {"WithDeadline": true, "WithDeadlineCause": true, "WithTimeout": true, "WithTimeoutCause": true},
}

// Who may. Examples and benchmarks are written as users write.
var (
	readsClock     = []string{"deadline", "examples/...", "benchmarks/..."}
	catchesSignals = []string{"signals", "examples/...", "benchmarks/..."}
)

// clockViolations looks at code outside tests. Test files are free: theirs is the clock of a synctest bubble.
func clockViolations(t *tree, readsClock []string) []string {
	var found []string
	report := func(node ast.Node, format string, args ...any) {
		found = append(found, t.at(node)+": "+fmt.Sprintf(format, args...))
	}
	for _, f := range t.files {
		if f.test {
			continue
		}
		names := map[string]string{} // of the watched imports, by what the file calls them
		for _, spec := range f.syntax.Imports {
			importPath, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				report(spec, "%v", err)
				continue
			}
			if importPath == "os/signal" && !in(f.dir, catchesSignals) {
				report(spec, "only signals may import os/signal")
			}
			if clock[importPath] == nil || in(f.dir, readsClock) {
				continue
			}
			name := path.Base(importPath)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == "." {
				report(spec, "%s must not be imported with a dot", importPath)
			}
			names[name] = importPath
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			use, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			// An identifier with an object is declared in this file and hides the import.
			if x, ok := use.X.(*ast.Ident); ok && x.Obj == nil && clock[names[x.Name]][use.Sel.Name] {
				report(use, "%s.%s outside deadline", names[x.Name], use.Sel.Name)
			}
			return true
		})
	}
	return found
}

func TestOnlyDeadlineReadsTheClock(t *testing.T) {
	for _, violation := range clockViolations(realTree(t), readsClock) {
		t.Error(violation)
	}
}

// TestDeadlineDoesReadIt: the walk reaches real code.
func TestDeadlineDoesReadIt(t *testing.T) {
	if len(clockViolations(realTree(t), nil)) == 0 {
		t.Error("nobody reads the clock, not even deadline: this test looks at nothing")
	}
}

func TestReadersOfTheClockAreFound(t *testing.T) {
	made := madeTree(t, map[string]string{
		"a/plain.go": `package a
import ("context"; "time")
var _ = time.Now()
var _ = time.Duration(1) * time.Second
func f(ctx context.Context, t time.Time) {
	<-time.After(1)
	time.Sleep(1)
	time.NewTimer(1); time.NewTicker(1); time.Tick(1); time.AfterFunc(1, nil)
	time.Since(t)
	time.Until(t)
	context.WithTimeout(ctx, 1); context.WithTimeoutCause(ctx, 1, nil)
	context.WithDeadline(ctx, t); context.WithDeadlineCause(ctx, t, nil)
	context.WithCancelCause(ctx)
	t.Sub(t)
}`,
		"a/alias.go": `package a
import clock "time"
import c "context"
var now = clock.Now
var bounded = (c.WithTimeout)`,
		"a/dot.go": `package a
import . "time"
var _ = Now()`,
		"a/blank.go": `package a
import _ "time"`,
		"a/hidden.go": `package a
import "time"
type fake struct{ Now func() time.Time }
func g(time fake) { time.Now() }`,
		"a/other.go": `package a
import "m/time"
var _ = time.Now()`,
		"a/signal.go": `package a
import "os/signal"
var _ = signal.NotifyContext`,
		"a/a_test.go": `package a
import "time"
var _ = time.Now()`,
		"deadline/clock.go": `package deadline
import "time"
var _ = time.Now()`,
		"deadline/inner/clock.go": `package inner
import "time"
var _ = time.Now()`,
		"signals/notify.go": `package signals
import ("os/signal"; "time")
var _ = signal.Notify
var _ = time.Now`,
		"examples/x/main.go": `package main
import ("os/signal"; "time")
var _ = signal.Notify
var _ = time.Now`,
	})
	want := []string{
		"a/alias.go:4: time.Now outside deadline",
		"a/alias.go:5: context.WithTimeout outside deadline",
		"a/dot.go:2: time must not be imported with a dot",
		"a/plain.go:3: time.Now outside deadline",
		"a/plain.go:6: time.After outside deadline",
		"a/plain.go:7: time.Sleep outside deadline",
		"a/plain.go:8: time.NewTimer outside deadline",
		"a/plain.go:8: time.NewTicker outside deadline",
		"a/plain.go:8: time.Tick outside deadline",
		"a/plain.go:8: time.AfterFunc outside deadline",
		"a/plain.go:9: time.Since outside deadline",
		"a/plain.go:10: time.Until outside deadline",
		"a/plain.go:11: context.WithTimeout outside deadline",
		"a/plain.go:11: context.WithTimeoutCause outside deadline",
		"a/plain.go:12: context.WithDeadline outside deadline",
		"a/plain.go:12: context.WithDeadlineCause outside deadline",
		"a/signal.go:2: only signals may import os/signal",
		"deadline/inner/clock.go:3: time.Now outside deadline",
		"signals/notify.go:4: time.Now outside deadline",
	}
	if diff := cmp.Diff(want, clockViolations(made, readsClock)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
