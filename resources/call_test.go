package resources_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/resources"
)

func TestCallTellsHowItCameBack(t *testing.T) {
	var none []int
	for name, tc := range map[string]struct {
		f        func() error
		is       error
		panicked bool
		site     string
	}{
		"a return":          {func() error { return nil }, nil, false, ""},
		"an error":          {func() error { return errIO }, errIO, false, ""},
		"a panic":           {func() error { panic(errIO) }, errIO, true, "call_test.go"},
		"a runtime's panic": {func() error { none[len(none)] = 1; return nil }, nil, true, "call_test.go"},
		"panic(nil)":        {func() error { panic(nil) }, nil, true, "call_test.go"},
		"Goexit":            {func() error { runtime.Goexit(); return nil }, resources.ErrGoexit, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := make(chan resources.Returned, 1)
				resources.Call(tc.f, func(ret resources.Returned) { back <- ret })
				got := <-back
				if got.Panicked != tc.panicked || tc.is != nil && !errors.Is(got.Err, tc.is) || (got.Err == nil) != (tc.is == nil && !tc.panicked) {
					t.Errorf("came back with %v, panicked %t; want %v, %t", got.Err, got.Panicked, tc.is, tc.panicked)
				}
				if !got.At.Equal(deadline.Now()) {
					t.Errorf("came back at %s, now is %s", got.At, deadline.Now())
				}
				if p, ok := errors.AsType[*resources.PanicError](got.Err); ok != tc.panicked || ok && !strings.Contains(p.Site, tc.site) {
					t.Errorf("error %v: want a site in %q", got.Err, tc.site)
				}
			})
		})
	}
}
