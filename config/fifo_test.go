//go:build unix

package config

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestAddressInFIFO: opening a FIFO that nobody writes to blocks for good.
func TestAddressInFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if u, err := (Broker{URLFile: path}).Address(); err == nil {
		t.Errorf("a FIFO holds %q", string(u))
	}
}
