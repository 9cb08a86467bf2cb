package report_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
)

func TestCloneIsDeep(t *testing.T) {
	d := full(word)
	c := report.Clone(d)
	if diff := cmp.Diff(d, c); diff != "" {
		t.Fatalf("(-original +clone):\n%s", diff)
	}
	var shared func(path string, a, b reflect.Value)
	shared = func(path string, a, b reflect.Value) {
		switch a.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			if a.Pointer() == b.Pointer() {
				t.Errorf("%s is shared", path)
			}
		}
		switch a.Kind() {
		case reflect.Pointer:
			shared(path, a.Elem(), b.Elem())
		case reflect.Slice:
			for i := range a.Len() {
				shared(path+"[]", a.Index(i), b.Index(i))
			}
		case reflect.Struct:
			if _, ok := a.Interface().(report.Time); ok {
				return
			}
			for i := range a.NumField() {
				shared(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
			}
		}
	}
	shared("", reflect.ValueOf(d), reflect.ValueOf(c))
}

func TestCloneKeepsNil(t *testing.T) {
	d := new(report.ShutdownReport)
	if diff := cmp.Diff(d, report.Clone(d)); diff != "" {
		t.Errorf("(-original +clone):\n%s", diff)
	}
}
