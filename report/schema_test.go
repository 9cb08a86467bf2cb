package report_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

type node = map[string]any

// TestSchemaIsTheStruct walks schema and struct side by side: the same fields, all described, all required unless they are
// omitted when empty, of matching types, null allowed for pointers alone, objects open.
func TestSchemaIsTheStruct(t *testing.T) {
	var root node
	if err := json.Unmarshal(report.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	defs := root["$defs"].(node)
	used := map[string]bool{}
	var walk func(path string, s node, typ reflect.Type)
	walk = func(path string, s node, typ reflect.Type) {
		nullable := typ.Kind() == reflect.Pointer
		if nullable {
			typ = typ.Elem()
		}
		described := s["description"] != nil
		null := false
		if either, ok := s["oneOf"].([]any); ok && len(either) == 2 {
			null = either[1].(node)["type"] == "null"
			s = either[0].(node)
		}
		if to, ok := s["$ref"].(string); ok {
			name := strings.TrimPrefix(to, "#/$defs/")
			used[name] = true
			s = defs[name].(node)
			described = described || s["description"] != nil
		}
		kind, _ := s["type"].(string)
		if kinds, ok := s["type"].([]any); ok && len(kinds) == 2 && kinds[1] == "null" {
			kind, null = kinds[0].(string), true
		}
		if !described {
			t.Errorf("%s: no description", path)
		}
		if null != nullable {
			t.Errorf("%s: null is %t in the schema, %t in the struct", path, null, nullable)
		}
		want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer",
			reflect.Uint64: "integer", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object"}[typ.Kind()]
		if typ == reflect.TypeFor[report.Time]() {
			want = "string"
			if s["format"] != "date-time" {
				t.Errorf("%s: a time has the format date-time", path)
			}
		}
		if kind != want {
			t.Errorf("%s: %q in the schema, %q in the struct", path, kind, want)
		}
		switch {
		case kind == "array":
			walk(path+"[]", s["items"].(node), typ.Elem())
		case kind == "object" && typ.Kind() == reflect.Struct:
			if s["additionalProperties"] != nil {
				t.Errorf("%s: the object is closed", path)
			}
			properties := s["properties"].(node)
			var names, required []string
			for i := range typ.NumField() {
				name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				names = append(names, name)
				if options != "omitempty" {
					required = append(required, name)
				}
				if field, ok := properties[name].(node); ok {
					walk(path+"."+name, field, typ.Field(i).Type)
				}
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(names)), sortedNames(properties)); diff != "" {
				t.Errorf("%s: fields (-struct +schema):\n%s", path, diff)
			}
			var listed []string
			for _, name := range s["required"].([]any) {
				listed = append(listed, name.(string))
			}
			if diff := cmp.Diff(required, listed); diff != "" {
				t.Errorf("%s: required (-struct +schema):\n%s", path, diff)
			}
		}
	}
	walk("document", root, reflect.TypeFor[report.ShutdownReport]())
	if diff := cmp.Diff(sortedNames(defs), slices.Sorted(func(yield func(string) bool) {
		for name := range used {
			if !yield(name) {
				return
			}
		}
	})); diff != "" {
		t.Errorf("$defs (-written +used):\n%s", diff)
	}
}

func sortedNames(n node) []string {
	var names []string
	for name := range n {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestSchemaEnums: every word of the code is admitted, and no other.
func TestSchemaEnums(t *testing.T) {
	sealed := string(mustSeal(t, abandonedHandler()))
	for field, words := range map[string][]string{
		`"completion": "incomplete"`:          {"graceful_completed", "forced_completed", "failed", "incomplete"},
		`"exit_reason": "drain_cut_short"`:    {"clean", "failed", "incomplete", "startup", "panic", "drain_cut_short", "broker_unavailable", "configuration", "killed"},
		`"verdict": "unknown"`:                {"clean", "duplicates_possible", "unknown"},
		`"cause": "deadline"`:                 {"", "deadline", "signal", "api"},
		`"effect": "graceful"`:                {"graceful", "force", "abandon", "duplicate", "none", "too_late"},
		`"graceful": "cut_by_force"`:          {"completed", "failed", "panicked", "timed_out", "cut_by_force", "not_started"},
		`"forced": "timed_out"`:               {"not_needed", "completed", "failed", "panicked", "timed_out", "unavailable"},
		`"phase": "drain"`:                    {"close_admission", "drain", "force", "close_evidence", "dispose", "publish"},
		`"bucket": "abandoned"`:               {"interrupted", "unresolved", "abandoned"},
		`"settlement": "none"`:                {"none", "written", "failed"},
		`"severity": "warning"`:               {"error", "warning", "info"},
		`"kind": "pool"`:                      {"channel", "connection", "pool", "provider", "monitor", "task", "runtime", "other"},
		`"by": "us"`:                          {"us", "peer", ""},
		`"kind": "signal"`:                    {"signal", "api", "context", "fault", "startup"},
		`"schema": "` + report.SchemaID + `"`: {report.SchemaID},
	} {
		if !strings.Contains(sealed, field) {
			t.Fatalf("nothing to edit: %s", field)
		}
		name, _, _ := strings.Cut(field, ": ")
		for _, word := range words {
			if err := reporttest.Validate([]byte(strings.Replace(sealed, field, name+`: "`+word+`"`, 1))); err != nil {
				t.Errorf("%s %q is refused: %v", name, word, err)
			}
		}
		if err := reporttest.Validate([]byte(strings.Replace(sealed, field, name+`: "hoped_for"`, 1))); err == nil {
			t.Errorf("%s admits any word", name)
		}
	}
}
