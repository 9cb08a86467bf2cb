package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DefaultKeep is how many reports of one service and instance a Store keeps if it is not told.
const DefaultKeep = 100

// Store keeps sealed reports as files in one directory, which several services may share. The zero Store has no directory
// and is of no use. Its methods may block as long as the disk does; they are safe for concurrent use.
type Store struct {
	// Dir is the directory.
	Dir string
	// Keep is how many reports of one service and instance stay. Zero means DefaultKeep.
	Keep int

	// before is called before each operation and may fail it. Only tests set it.
	before func(op string) error
}

// StoreError reports what a Store could not do, and with which file.
type StoreError struct {
	Op   string // mkdir, create, write, sync, rename, sync_dir
	Path string
	Err  error
}

// Error names the operation, the file and the cause.
func (e *StoreError) Error() string {
	cause := e.Err
	if inner, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = inner.Err
	}
	return fmt.Sprintf("report: store: %s %q: %v", e.Op, e.Path, cause)
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Prepare creates the directory, and what is missing above it, with mode 0700 whatever the umask. An existing directory is
// left as it is. The error is a *StoreError.
func (s *Store) Prepare() error {
	if err := mkdirAll(filepath.Clean(s.Dir)); err != nil {
		return &StoreError{Op: "mkdir", Path: s.Dir, Err: err}
	}
	return nil
}

func mkdirAll(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return syscall.ENOTDIR
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := mkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) { // somebody else was faster
			return nil
		}
		return err
	}
	return os.Chmod(dir, 0o700)
}

// Save stores raw, the sealed bytes of d, as <Dir>/<UTC time of the trigger>-<report_id>.json with mode 0600, and returns the
// path. The file appears whole or not at all: it is written under another name, synced and renamed, and the directory is
// synced. Then the oldest reports of d's service and instance beyond Keep are removed; that this may fail is no error of Save.
//
// On an error, which is a *StoreError, no temporary file is left. After a crash one may be; a later Save removes it.
func (s *Store) Save(d *ShutdownReport, raw []byte) (path string, err error) {
	path = filepath.Join(s.Dir, fileName(d))
	if !idForm.MatchString(d.ReportID) {
		return "", &StoreError{Op: "create", Path: path, Err: fmt.Errorf("%q is no report id", d.ReportID)}
	}
	if err := s.write(path, raw); err != nil {
		return "", err
	}
	if err := s.run("sync_dir", path, func() error { return syncDir(s.Dir) }); err != nil {
		return "", err
	}
	s.prune(d)
	return path, nil
}

// write makes the file at path from raw.
func (s *Store) write(path string, raw []byte) (err error) {
	var f *os.File
	err = s.run("create", path, func() (err error) {
		f, err = os.CreateTemp(s.Dir, "."+filepath.Base(path)+".*.tmp")
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close() // a second close after a success
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	err = s.run("create", path, func() error { return f.Chmod(0o600) })
	if err != nil {
		return err
	}
	err = s.run("write", path, func() error { _, err := f.Write(raw); return err })
	if err != nil {
		return err
	}
	err = s.run("sync", path, func() error { return errors.Join(f.Sync(), f.Close()) })
	if err != nil {
		return err
	}
	return s.run("rename", path, func() error { return os.Rename(f.Name(), path) })
}

// run does one operation and makes a *StoreError of its error.
func (s *Store) run(op, path string, do func() error) error {
	var err error
	if s.before != nil {
		err = s.before(op)
	}
	if err == nil {
		err = do()
	}
	if err != nil {
		return &StoreError{Op: op, Path: path, Err: err}
	}
	return nil
}

// syncDir makes a rename in dir last. A file system that cannot sync a directory has done what it can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func fileName(d *ShutdownReport) string {
	return d.Trigger.At.UTC().Format("20060102T150405Z") + "-" + d.ReportID + ".json"
}
