package report_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

// TestMain lets the test binary play a process that stores a report and dies; see child.
func TestMain(m *testing.M) {
	if role := os.Getenv("REPORT_TEST_ROLE"); role != "" {
		os.Exit(play(role, os.Getenv("REPORT_TEST_DIR")))
	}
	os.Exit(m.Run())
}

func play(role, dir string) int {
	d := clean()
	raw, err := report.Seal(d)
	if err != nil {
		return 1
	}
	s := report.Store{Dir: dir}
	switch role {
	case "mask": // the widest umask there is
		syscall.Umask(0o777)
		err = errors.Join(s.Prepare(), saved(s.Save(d, raw)))
	case "disk full": // no file may grow beyond 4 KiB
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096})
		if err == nil {
			signal.Ignore(syscall.SIGXFSZ)
			err = saved(s.Save(d, raw))
		}
		if !storeError(err, "write", syscall.EFBIG) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "crash":
		report.FailBefore(&s, func(op string) error {
			if op == "rename" {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		})
		err = saved(s.Save(d, raw))
	case "save for ever": // and say so each time
		for i := 0; err == nil; i++ {
			d.ReportID = report.NewID(start.Add(time.Duration(i) * time.Millisecond))
			if raw, err = report.Seal(d); err == nil {
				err = saved(s.Save(d, raw))
				fmt.Println(i)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REPORT_TEST_ROLE="+role, "REPORT_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func saved(_ string, err error) error { return err }

func storeError(err error, op string, is error) bool {
	e, ok := errors.AsType[*report.StoreError](err)
	return ok && e.Op == op && e.Path != "" && errors.Is(err, is)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestStoreSaves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var", "reports")
	s := report.Store{Dir: dir}
	if err := errors.Join(s.Prepare(), s.Prepare()); err != nil {
		t.Fatal(err)
	}
	d := clean()
	raw := mustSeal(t, d)
	path, err := s.Save(d, raw)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "20261130T174801Z-0193a2b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b.json"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, raw) {
		t.Errorf("stored other bytes (-sealed +stored):\n%s", cmp.Diff(string(raw), string(got)))
	}
	reporttest.Check(t, got)
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

func TestStoreModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var", "reports")
	if err := child("mask", dir).Run(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(dir): 0o700, dir: 0o700, filepath.Join(dir, names(t, dir)[0]): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestStoreErrorSaysWhat(t *testing.T) {
	_, err := (&report.Store{Dir: "/nowhere"}).Save(clean(), nil)
	if err == nil {
		t.Fatal("saved")
	}
	if got, want := err.Error(), `report: store: create "/nowhere/20261130T174801Z-0193a2b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b.json": no such file or directory`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestPrepareLeavesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := (&report.Store{Dir: dir}).Prepare(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		if err := (&report.Store{Dir: dir}).Prepare(); !storeError(err, "mkdir", syscall.ENOTDIR) {
			t.Errorf("%s: error %v", dir, err)
		}
	}
}

// TestStoreFails: whatever the disk does, the error says what, and nothing of a report is left behind.
func TestStoreFails(t *testing.T) {
	d := clean()
	raw := mustSeal(t, d)

	t.Run("disk full", func(t *testing.T) {
		dir := t.TempDir()
		if err := child("disk full", dir).Run(); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); got != nil {
			t.Errorf("left %q", got)
		}
	})
	t.Run("directory gone", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		if _, err := (&report.Store{Dir: dir}).Save(d, raw); !storeError(err, "create", fs.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("directory read-only", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() {
			if _, err := (&report.Store{Dir: dir}).Save(d, raw); !storeError(err, "create", fs.ErrPermission) {
				t.Errorf("error %v", err)
			}
		})
		if got := names(t, dir); got != nil {
			t.Errorf("left %q", got)
		}
	})
	t.Run("name taken by a directory", func(t *testing.T) {
		s := report.Store{Dir: t.TempDir()}
		path, err := s.Save(d, raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(d, raw); !storeError(err, "rename", fs.ErrExist) {
			t.Errorf("error %v", err)
		}
		if got := names(t, s.Dir); len(got) != 1 {
			t.Errorf("left %q", got)
		}
	})
	t.Run("an id that leaves the directory", func(t *testing.T) {
		d := clean()
		d.ReportID = "/../../x"
		dir := t.TempDir()
		if _, err := (&report.Store{Dir: dir}).Save(d, raw); err == nil {
			t.Error("saved")
		}
	})
	for _, op := range []string{"create", "write", "sync", "rename", "sync_dir"} {
		t.Run(op, func(t *testing.T) {
			s := report.Store{Dir: t.TempDir()}
			report.FailBefore(&s, func(at string) error {
				if at == op {
					return syscall.EIO
				}
				return nil
			})
			path, err := s.Save(d, raw)
			if !storeError(err, op, syscall.EIO) || path != "" {
				t.Errorf("path %q, error %v", path, err)
			}
			left := names(t, s.Dir)
			if op == "sync_dir" { // it is there and whole; only whether it lasts is not known
				reporttest.Check(t, read(t, filepath.Join(s.Dir, left[0])))
				left = left[1:]
			}
			if len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// asNobody runs f with the file access of an unprivileged user, where the test itself runs as root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	}
	f()
}

// TestStoreCrash: a process killed before the rename leaves no report, and what it leaves is removed a day later.
func TestStoreCrash(t *testing.T) {
	s := report.Store{Dir: t.TempDir()}
	if err := child("crash", s.Dir).Run(); err == nil {
		t.Fatal("the process outlived itself")
	}
	left := names(t, s.Dir)
	if len(left) != 1 || !strings.HasPrefix(left[0], ".") || !strings.HasSuffix(left[0], ".tmp") {
		t.Fatalf("left %q", left)
	}
	d := clean()
	old := d.Trigger.At.Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.Dir, left[0]), old, old); err != nil {
		t.Fatal(err)
	}
	path, err := s.Save(d, mustSeal(t, d))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Base(path)}, names(t, s.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStoreKilled kills a process that does nothing but store reports, again and again: readers find whole ones only.
func TestStoreKilled(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		cmd := child("save for ever", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 {
			lines.Scan()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
	reports := 0
	for _, name := range names(t, dir) {
		if strings.HasSuffix(name, ".json") {
			reports++
			reporttest.Check(t, read(t, filepath.Join(dir, name)))
		}
	}
	if reports < 3 {
		t.Errorf("%d reports", reports)
	}
}

func TestStorePrunes(t *testing.T) {
	dir := t.TempDir()
	s := report.Store{Dir: dir, Keep: 3}
	save := func(minutes int, service, instance string) string {
		t.Helper()
		d := clean()
		d.Trigger.At = after(int64(minutes) * 60 * second)
		d.ReportID = report.NewID(d.Trigger.At.Time)
		d.Service.Name, d.Service.Instance = service, instance
		path, err := s.Save(d, mustSeal(t, d))
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(path)
	}
	plant := func(name string, age time.Duration, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		at := start.Add(10*time.Minute - age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const id = "0193a2b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b.json"
	mine := mustSeal(t, clean())
	var want []string
	keep := func(names ...string) { want = append(want, names...) }

	keep(plant("20200101T000000Z-"+id, 0, []byte(`{"schema":"something.else/v1","service":{"name":"orders","instance":"a"}}`)))
	keep(plant("20200101T000001Z-"+id, 0, []byte(`not JSON`)))
	keep(plant("20200101T000002Z-"+id, 0, nil))
	keep(plant("20200101T000003Z-"+id, 0, []byte(`{"service":{"name":"orders","instance":"a"},"schema":"`+report.SchemaID+`"}`)))
	keep(plant("my notes.json", 0, mine), plant("20200101T000000Z-orders.json", 0, mine), plant(".hidden.tmp", 48*time.Hour, nil))
	keep(plant(".20200101T000000Z-"+id+".123.tmp", time.Hour, nil))
	plant(".20200101T000000Z-"+id+".456.tmp", 25*time.Hour, nil)
	if err := os.Symlink(filepath.Join(dir, "my notes.json"), filepath.Join(dir, "20200101T000004Z-"+id)); err != nil {
		t.Fatal(err)
	}
	keep("20200101T000004Z-" + id)
	if err := os.Mkdir(filepath.Join(dir, "20200101T000005Z-"+id), 0o700); err != nil {
		t.Fatal(err)
	}
	keep("20200101T000005Z-" + id)

	keep(save(0, "orders", "b"), save(0, "billing", "a"))
	save(1, "orders", "a")
	save(2, "orders", "a")
	keep(save(3, "orders", "a"), save(4, "orders", "a"))
	keep(save(5, "orders", "b"), save(6, "orders", "b"))
	keep(save(10, "orders", "a"))

	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A clock that was set back does not cost the report just stored.
	s.Keep = 1
	old := save(-60, "orders", "a")
	if !slices.Contains(names(t, dir), old) {
		t.Error("the report just stored is gone")
	}
}
