package report

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Bounds of one prune, so that a directory full of other things costs little.
const (
	maxNames = 1 << 16  // names read from the directory
	maxHeads = 1 << 12  // reports opened to see whose they are
	maxHead  = 64 << 10 // bytes read of each
	staleAge = 24 * time.Hour
)

var (
	storedName = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-` + idPattern + `\.json$`)
	tempName   = regexp.MustCompile(`^\.[0-9]{8}T[0-9]{6}Z-` + idPattern + `\.json\.[0-9]+\.tmp$`)
)

// prune removes the oldest reports of d's service and instance beyond Keep, by the time in their names, and temporary files
// that a crash left a day or more before d. It touches nothing else, and never d's own file. What it cannot remove or read
// stays.
func (s *Store) prune(d *ShutdownReport) {
	keep := s.Keep
	if keep <= 0 {
		keep = DefaultKeep
	}
	var stored []string
	for _, e := range readDir(s.Dir) {
		switch {
		case !e.Type().IsRegular():
		case storedName.MatchString(e.Name()):
			stored = append(stored, e.Name())
		case tempName.MatchString(e.Name()):
			if info, err := e.Info(); err == nil && info.ModTime().Before(d.Trigger.At.Add(-staleAge)) {
				_ = os.Remove(filepath.Join(s.Dir, e.Name()))
			}
		}
	}
	if len(stored) <= keep {
		return
	}
	slices.Sort(stored)
	slices.Reverse(stored)
	own, ours := fileName(d), 1
	for _, name := range stored[:min(len(stored), maxHeads)] {
		path := filepath.Join(s.Dir, name)
		if name == own || !isOf(path, d.Service) {
			continue
		}
		if ours++; ours > keep {
			_ = os.Remove(path)
		}
	}
}

func readDir(dir string) []os.DirEntry {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxNames)
	return entries
}

// isOf reports whether the file at path begins like a report of the same service and instance.
func isOf(path string, service Service) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxHead))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	isReport := false
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return false
		}
		switch name {
		case "schema":
			var schema string
			if dec.Decode(&schema) != nil || schema != SchemaID {
				return false
			}
			isReport = true
		case "service":
			var of Service
			return dec.Decode(&of) == nil && isReport && of.Name == service.Name && of.Instance == service.Instance
		default:
			var skipped json.RawMessage
			if dec.Decode(&skipped) != nil {
				return false
			}
		}
	}
	return false
}
