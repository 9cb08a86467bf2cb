package report

import (
	"reflect"
	"strconv"
	"strings"
)

// index is the path of element i of the list at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// resolves reports whether path, such as "phases[1].actions[0].error", names a value of d. Names are those of the JSON; a
// label is named like a field.
func resolves(d *ShutdownReport, path string) bool {
	v := reflect.ValueOf(d).Elem()
	for step := range strings.SplitSeq(path, ".") {
		name, indexed, isIndexed := strings.Cut(step, "[")
		if v = member(v, name); !v.IsValid() {
			return false
		}
		if !isIndexed {
			continue
		}
		digits, closed := strings.CutSuffix(indexed, "]")
		i, err := strconv.Atoi(digits)
		if !closed || err != nil || v.Kind() != reflect.Slice || i < 0 || i >= v.Len() {
			return false
		}
		v = v.Index(i)
	}
	return true
}

// member returns the field of v, or of what v points to, that the JSON calls name; the zero Value if there is none.
func member(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Map:
		return v.MapIndex(reflect.ValueOf(name))
	case reflect.Struct:
		for i := range v.NumField() {
			if jsonName(v.Type().Field(i)) == name {
				return v.Field(i)
			}
		}
	}
	return reflect.Value{}
}

// jsonName is the name of a field in the document.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
