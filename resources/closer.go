package resources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// ErrCloser: what was given to Own is nil, or cannot be ended.
var ErrCloser = errors.New("a closer must be an io.Closer, func(), func() error, func(context.Context) error, " +
	"or have Shutdown(context.Context) error or Close()")

// closing returns the one function that ends closer. Of several ways the one that takes a context comes first: it is the one
// that can be bounded.
func closing(closer any) (func(context.Context) error, error) {
	if isNil(closer) {
		return nil, fmt.Errorf("%T is nil: %w", closer, ErrCloser)
	}
	switch c := closer.(type) {
	case interface{ Shutdown(context.Context) error }:
		return c.Shutdown, nil
	case io.Closer:
		return func(context.Context) error { return c.Close() }, nil
	case interface{ Close() }:
		return func(context.Context) error { c.Close(); return nil }, nil
	}
	if f, ok := as[func(context.Context) error](closer); ok {
		return f, nil
	}
	if f, ok := as[func() error](closer); ok {
		return func(context.Context) error { return f() }, nil
	}
	if f, ok := as[func()](closer); ok {
		return func(context.Context) error { f(); return nil }, nil
	}
	return nil, fmt.Errorf("%T: %w", closer, ErrCloser)
}

// as converts a function of a named type, such as context.CancelFunc, to F.
func as[F any](closer any) (F, bool) {
	v, to := reflect.ValueOf(closer), reflect.TypeFor[F]()
	if !v.CanConvert(to) {
		var none F
		return none, false
	}
	f, ok := v.Convert(to).Interface().(F)
	return f, ok
}

// isNil sees through an interface that holds a nil pointer.
func isNil(closer any) bool {
	v := reflect.ValueOf(closer)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice, reflect.UnsafePointer:
		return v.IsNil()
	}
	return false
}
