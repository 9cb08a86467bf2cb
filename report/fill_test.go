package report_test

import (
	"reflect"
	"strconv"

	"github.com/lastcall-go/lastcall/report"
)

// full is a document in which every field is set: every string is made by text, every list has two elements, no pointer is
// nil, every number is another one.
func full(text func(n int) string) *report.ShutdownReport {
	d := new(report.ShutdownReport)
	n := 0
	var fill func(reflect.Value)
	fill = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.String:
			v.SetString(text(n))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Uint64:
			v.SetUint(uint64(n))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(text(n)), reflect.ValueOf(text(n+1)))
		case reflect.Struct:
			if _, ok := v.Interface().(report.Time); ok {
				v.Set(reflect.ValueOf(after(int64(n))))
				return
			}
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		default:
			panic("a document has no " + v.Type().String())
		}
	}
	fill(reflect.ValueOf(d).Elem())
	d.Schema = report.SchemaID
	return d
}

func word(n int) string { return "word" + strconv.Itoa(n) }
