package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
)

var update = flag.Bool("update", false, "rewrite testdata/reports from what the code makes now")

const golden = "../testdata/reports"

// file compares got with a golden file, or writes it under -update.
func file(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(golden, name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	for _, tc := range walkthrough {
		t.Run(tc.name, func(t *testing.T) {
			d := tc.build()
			raw, err := report.Seal(d)
			if err != nil {
				t.Fatal(err)
			}
			file(t, tc.name+".json", raw)
			for _, width := range []int{80, 120} {
				file(t, tc.name+"."+strconv.Itoa(width)+".txt", []byte(report.Text(d, report.TextOptions{Width: width})))
			}
			file(t, tc.name+".summary.txt", []byte(report.Summary(d)))
		})
	}
}
