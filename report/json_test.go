package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
)

func mustJSON(t testing.TB, d *report.ShutdownReport) []byte {
	t.Helper()
	raw, err := report.JSON(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestJSONRoundTrip(t *testing.T) {
	d := full(word)
	raw := mustJSON(t, d)
	back, err := report.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	line, err := report.Line(d)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
		t.Errorf("a line has one newline, at its end: %q", line)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(line)), compact.String(); got != want {
		t.Errorf("JSON and Line differ (-JSON +Line):\n%s", cmp.Diff(want, got))
	}
}

func TestJSONNeverSaysNull(t *testing.T) {
	d := new(report.ShutdownReport)
	d.Phases, d.Resources, d.Subscriptions, d.Findings = make([]report.Phase, 1), make([]report.Resource, 1), make([]report.Subscription, 1), make([]report.Finding, 1)
	before := report.Clone(d)
	var got any
	if err := json.Unmarshal(mustJSON(t, d), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("JSON changed its argument:\n%s", diff)
	}
	nullable := map[string]bool{"platform_grace_us": true, "force_t_us": true, "t_us": true, "error": true, "queue_at_end": true, "journal": true, "ended_at": true}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case nil:
			if !nullable[name] {
				t.Errorf("%s is null", name)
			}
		case []any:
			for _, e := range v {
				walk(name, e)
			}
		case map[string]any:
			for name, e := range v {
				walk(name, e)
			}
		}
	}
	walk("document", got)

	report.Normalize(d)
	var nils func(path string, v reflect.Value)
	nils = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Slice, reflect.Map:
			if v.IsNil() {
				t.Errorf("%s is nil after Normalize", path)
			}
			if v.Kind() == reflect.Slice && v.Len() > 0 {
				nils(path+"[0]", v.Index(0))
			}
		case reflect.Struct:
			if v.Type() != reflect.TypeFor[report.Time]() {
				for i := range v.NumField() {
					nils(path+"."+v.Type().Field(i).Name, v.Field(i))
				}
			}
		}
	}
	nils("", reflect.ValueOf(d).Elem())
}

func TestJSONIsReadable(t *testing.T) {
	d := clean()
	d.Stacks = []string{"a <-chan T && more\n\tb"}
	if raw := mustJSON(t, d); !bytes.Contains(raw, []byte(`"a <-chan T && more\n\tb"`)) {
		t.Errorf("escaped for HTML:\n%s", raw)
	}
	if raw := mustJSON(t, d); !bytes.Contains(raw, []byte(`"at": "2026-11-30T17:48:01.123456Z"`)) {
		t.Errorf("time is not RFC 3339 UTC with microseconds:\n%s", raw)
	}
}

func TestParse(t *testing.T) {
	valid := mustJSON(t, clean())
	edit := func(from, to string) []byte { return bytes.Replace(valid, []byte(from), []byte(to), 1) }
	schema := func(want string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*report.SchemaError](err)
			return ok && e.Got == want
		}
	}
	malformed := func(err error) bool {
		e, ok := errors.AsType[*report.ParseError](err)
		return ok && e.Offset >= 0
	}
	for name, tc := range map[string]struct {
		raw []byte
		ok  func(error) bool
	}{
		"valid":                         {valid, func(err error) bool { return err == nil }},
		"unknown fields":                {edit(`"recovered"`, `"new_in_1_7": {"a": [1, 2.5, null]}, "recovered"`), func(err error) bool { return err == nil }},
		"an unknown word":               {edit(`"signal"`, `"telepathy"`), func(err error) bool { return err == nil }},
		"another schema":                {edit(report.SchemaID, "lastcall.shutdown-report/v2"), schema("lastcall.shutdown-report/v2")},
		"another schema of other types": {[]byte(`{"schema":"x/v9","service":"orders"}`), schema("x/v9")},
		"no schema":                     {[]byte(`{}`), schema("")},
		"JSON null":                     {[]byte(`null`), schema("")},
		"an array":                      {[]byte(`[]`), malformed},
		"empty":                         {nil, malformed},
		"cut off":                       {valid[:len(valid)/2], malformed},
		"a second document":             {append(bytes.Clone(valid), valid...), malformed},
		"a wrong type":                  {edit(`"pid": 71`, `"pid": "71"`), malformed},
		"a fraction":                    {edit(`"pid": 71`, `"pid": 7.5`), malformed},
		"a negative count":              {edit(`"received": 20`, `"received": -1`), malformed},
		"a time that is none":           {edit("2026-11-30T17:48:01.123456Z", "yesterday"), malformed},
		"a time beyond year 9999":       {edit("2026-11-30T17:48:01.123456Z", "9999-12-31T23:59:59-01:00"), malformed},
		"too deep":                      {[]byte(strings.Repeat("[", 1<<20)), malformed},
		"too large":                     {append(bytes.Clone(valid), bytes.Repeat([]byte(" "), report.MaxSize)...), func(err error) bool { return errors.Is(err, report.ErrTooLarge) }},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := report.Parse(tc.raw)
			if !tc.ok(err) {
				t.Errorf("error %v", err)
			}
			if (d == nil) != (err != nil) {
				t.Errorf("report %v with error %v", d, err)
			}
		})
	}
}

// TestParseErrorIsSafe: an error about a hostile document may be printed.
func TestParseErrorIsSafe(t *testing.T) {
	for _, raw := range []string{`{"schema":"\u001b[31m\u0007"}`, "{\x1b", `{"schema":"` + strings.Repeat("x", 1<<16) + `"}`} {
		_, err := report.Parse([]byte(raw))
		if err == nil {
			t.Fatalf("%q was read", raw)
		}
		if text := err.Error(); strings.ContainsAny(text, "\x1b\x07\n") || len(text) > 700 {
			t.Errorf("%q", text)
		}
	}
}

func TestParseReadsMissingAsEmpty(t *testing.T) {
	d, err := report.Parse([]byte(`{"schema":"` + report.SchemaID + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &report.ShutdownReport{Schema: report.SchemaID}
	report.Normalize(want)
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	at := report.At(time.Date(2026, 11, 30, 19, 48, 1, 123456789, zone))
	if got, want := at.String(), "2026-11-30T17:48:01.123456Z"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzParse: reading never panics, and what is read writes the same bytes for ever.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"` + report.SchemaID + `"}`))
	f.Add([]byte(`{"schema":"` + report.SchemaID + `","sessions":[{"opened_at":"0000-01-01T00:00:00+14:00","ended_at":null}],"service":{"labels":null},"stacks":["\ud800"]}`))
	f.Add(mustJSON(f, full(word)))
	paths, err := filepath.Glob(golden + "/*.json")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden reports: %v", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = report.VerifyDigest(raw)
		d, err := report.Parse(raw)
		if err != nil {
			return
		}
		_ = report.Check(d)
		_ = report.Text(d, report.TextOptions{})
		once := mustJSON(t, d)
		again, err := report.Parse(once)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
		if twice := mustJSON(t, again); !bytes.Equal(once, twice) {
			t.Errorf("not stable (-once +twice):\n%s", cmp.Diff(string(once), string(twice)))
		}
	})
}
