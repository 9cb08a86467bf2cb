package reporttest_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/lastcall-go/lastcall/report/reporttest"
)

// recorder is a TB that counts failures instead of failing.
type recorder struct {
	testing.TB
	failures int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failures++ }

func TestCheck(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/reports/clean.json")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string) []byte {
		if !bytes.Contains(raw, []byte(from)) {
			t.Fatalf("nothing to edit: %s", from)
		}
		return bytes.Replace(raw, []byte(from), []byte(to), 1)
	}
	for name, tc := range map[string]struct {
		raw  []byte
		fail bool
	}{
		"sealed":            {raw, false},
		"changed":           {edit(`"pid": 71`, `"pid": 72`), true},
		"a field missing":   {edit(`"recovered": false,`, ``), true},
		"other white space": {edit(`"pid": 71`, `"pid":  71`), true},
		"not a report":      {[]byte("{}"), true},
	} {
		r := &recorder{TB: t}
		d := reporttest.Check(r, tc.raw)
		if r.failures > 0 != tc.fail {
			t.Errorf("%s: %d failures", name, r.failures)
		}
		if name == "sealed" && (d == nil || d.Service.Name != "orders") {
			t.Errorf("%s: returned %v", name, d)
		}
	}
}
