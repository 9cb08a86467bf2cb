package report_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lastcall-go/lastcall/report"
)

func TestNewID(t *testing.T) {
	at := time.Date(2026, 11, 30, 17, 48, 1, 123_456_000, time.UTC)
	id, err := uuid.Parse(report.NewID(at))
	if err != nil {
		t.Fatal(err)
	}
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		t.Errorf("%s is of version %d, variant %s", id, id.Version(), id.Variant())
	}
	if sec, nsec := id.Time().UnixTime(); sec != at.Unix() || nsec/1e6 != 123 {
		t.Errorf("%s says %d.%09d, want %v", id, sec, nsec, at)
	}

	var ids []string
	seen := make(map[string]bool)
	for i := range 2000 {
		id := report.NewID(at.Add(time.Duration(i) * time.Microsecond))
		ids = append(ids, id)
		seen[report.NewID(at)] = true
	}
	if !slices.IsSorted(ids) {
		t.Error("IDs of rising instants do not rise")
	}
	if len(seen) != 2000 {
		t.Errorf("2000 IDs of one instant, %d of them different", len(seen))
	}
}
