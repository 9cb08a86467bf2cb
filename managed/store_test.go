package managed_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
)

// A stop that comes before the start has made the report's directory leaves its report there all the same.
func TestReportOfAConsumerNeverStarted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	h := managedtest.New(t, managed.Config{Report: managed.Report{Dir: dir}})
	h.Stop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want one report", entries, err)
	}
}
