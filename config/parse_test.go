package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const small = "[broker]\nurl = \"amqp://file:s3cret@h/\"\n[lifecycle]\nshutdown_timeout_secs = 10\n[report]\ndir = \"file\"\n" +
	"[[subscription]]\nqueue = \"orders\"\nexec = [\"true\"]\n"

// TestPrecedence: flags beat environment beats file.
func TestPrecedence(t *testing.T) {
	env := lookup("LASTCALL_BROKER_URL=amqp://env:s3cret@h/", "LASTCALL_SHUTDOWN_TIMEOUT=20s", "LASTCALL_PLATFORM_GRACE=1m",
		"LASTCALL_PLATFORM_PRESTOP=2s", "LASTCALL_REPORT_DIR=env", "LASTCALL_SERVICE_NAME=env")
	flags := Overrides{ShutdownTimeout: 40 * time.Second, PlatformGrace: 2 * time.Minute, BrokerURL: "amqp://flag:s3cret@h/", ReportDir: "flag"}
	type values struct {
		url                   URL
		total, grace, prestop Duration
		dir, name             string
	}
	for _, c := range []struct {
		name  string
		flags Overrides
		env   func(string) (string, bool)
		want  values
	}{
		{"file", Overrides{}, nil, values{"amqp://file:s3cret@h/", sec(10), 0, 0, "file", ""}},
		{"empty variables", Overrides{}, func(string) (string, bool) { return "", true }, values{"amqp://file:s3cret@h/", sec(10), 0, 0, "file", ""}},
		{"environment", Overrides{}, env, values{"amqp://env:s3cret@h/", sec(20), sec(60), sec(2), "env", "env"}},
		{"flags", flags, nil, values{"amqp://flag:s3cret@h/", sec(40), sec(120), 0, "flag", ""}},
		{"both", flags, env, values{"amqp://flag:s3cret@h/", sec(40), sec(120), sec(2), "flag", "env"}},
	} {
		f, err := c.flags.Parse("x.toml", []byte(small), c.env)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		l := f.Lifecycle
		got := values{f.Broker.URL, l.ShutdownTimeout, l.PlatformGrace, l.PlatformPrestop, f.Report.Dir, f.Service.Name}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestURLFileGivesWay: an address from outside replaces the file's, however that one says it.
func TestURLFileGivesWay(t *testing.T) {
	text := strings.Replace(small, `url = "amqp://file:s3cret@h/"`, `url_file = "no/such/file"`, 1)
	memory := strings.Replace(small, `url = "amqp://file:s3cret@h/"`, `kind = "memory"`, 1)
	f, err := Parse("x.toml", []byte(memory), lookup("LASTCALL_BROKER_URL=amqp://env:s3cret@h/"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Broker.URL != "" {
		t.Errorf("the memory broker has the address %s", f.Broker.URL)
	}
	f, err = Parse("x.toml", []byte(text), lookup("LASTCALL_BROKER_URL=amqp://env:s3cret@h/"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Broker{Kind: RabbitMQ, URL: "amqp://env:s3cret@h/", ReconnectMax: sec(10), GiveUpAfter: sec(300)}, f.Broker); diff != "" {
		t.Errorf("broker (-want +got):\n%s", diff)
	}
}

// TestProblemsElsewhere: what environment and flags say wrong is blamed on them, after the file's own problems.
func TestProblemsElsewhere(t *testing.T) {
	env := lookup("LASTCALL_SHUTDOWN_TIMEOUT=20", "LASTCALL_PLATFORM_PRESTOP=-1s", "LASTCALL_BROKER_URL=amqp://u:s3cret@h:x/")
	text := "\ufefflifecycle.platform_prestop = 5\n" + strings.Replace(strings.Replace(small, "queue", "queues", 1), "[lifecycle]\n", "[service]\n", 1)
	text = strings.Replace(text, "shutdown_timeout_secs = 10", `name = "x"`, 1)
	_, err := Overrides{PlatformGrace: -time.Second}.Parse("x.toml", []byte(text), env)
	got, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v", err)
	}
	want := []Problem{
		{"x.toml", 1, 11, "lifecycle.platform_prestop", "platform_prestop is a bare number", `write it with its unit: "5s" or "5ms"`},
		{"x.toml", 9, 1, "subscription[0].queues", `unknown key "queues" in [[subscription]]`, `write "queue"`},
		{"LASTCALL_SHUTDOWN_TIMEOUT", 0, 0, "lifecycle.shutdown_timeout", `shutdown_timeout is "20", no duration`,
			`write a number with its unit, such as "10s", "750ms" or "24h"`},
		{"--grace", 0, 0, "lifecycle.platform_grace", "platform_grace is -1s", "write what the platform grants, or remove it if that is not known"},
		{"LASTCALL_PLATFORM_PRESTOP", 0, 0, "lifecycle.platform_prestop", "platform_prestop is -1s", `write how long it takes, "0s" if there is none`},
		{"LASTCALL_BROKER_URL", 0, 0, "broker.url", "url cannot be read as a URL (it is not shown, it may hold a password)", urlForm},
	}
	if diff := cmp.Diff(want, got.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.toml")
	if err := os.WriteFile(path, []byte("\ufeff"+small), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LASTCALL_REPORT_DIR", "from-the-process")
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != path || f.Report.Dir != "from-the-process" {
		t.Errorf("name %q, report dir %q", f.Name, f.Report.Dir)
	}
	_, err = Load(filepath.Join(dir, "none.toml"))
	if problem, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, fs.ErrNotExist) || len(problem.Problems) != 1 {
		t.Errorf("a missing file: %v, want one problem that Is fs.ErrNotExist", err)
	}
	if _, err = Load(dir); err == nil {
		t.Error("a directory loads")
	}
	padded := func(size int) []byte { return append([]byte(small), bytes.Repeat([]byte("#"), size-len(small))...) }
	if _, err = Parse("big.toml", padded(maxFile), nil); err != nil {
		t.Error(err)
	}
	if _, err = Parse("big.toml", padded(maxFile+1), nil); err == nil {
		t.Error("a file of any size loads")
	}
}

// TestGrace: the arithmetic of the platform's grace, as a value and in words.
func TestGrace(t *testing.T) {
	for _, c := range []struct {
		grace, prestop time.Duration
		fits           bool
		change         string
	}{
		{11 * time.Second, 0, true, ""},
		{11*time.Second - 1, 0, false, "raise the platform's grace to 11s, or lower shutdown_timeout to 9.999999999s"},
		{15 * time.Second, 5 * time.Second, false, "raise the platform's grace to 16s, or lower shutdown_timeout to 9s"},
		{time.Second, 0, false, "raise the platform's grace to 11s"},
	} {
		f, err := Overrides{PlatformGrace: c.grace}.Parse("x.toml", []byte(small), lookup("LASTCALL_PLATFORM_PRESTOP="+c.prestop.String()))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Lifecycle.Grace().Fits(f.Lifecycle.Deadline().Total); got != c.fits {
			t.Errorf("grace %s: fits = %v", c.grace, got)
		}
		change := ""
		for _, w := range f.Warnings {
			if w.Kind == GraceTooSmall && w.FailsCheck() && w.Source == "--grace" {
				change = w.Change
			}
		}
		if change != c.change {
			t.Errorf("grace %s: %q, want %q", c.grace, change, c.change)
		}
	}
}

// TestDigest: equal for equal configurations, whatever the password and the environment behind labels; different for others.
func TestDigest(t *testing.T) {
	digest := func(text string, env ...string) string {
		t.Helper()
		f, err := Parse("x.toml", []byte(text), lookup(env...))
		if err != nil {
			t.Fatal(err)
		}
		return f.Digest
	}
	labelled := small + "[service]\nlabels = { deploy = \"env:DEPLOY\" }\n"
	base := digest(labelled, "DEPLOY=1")
	if len(base) != len("sha256:")+64 || !strings.HasPrefix(base, "sha256:") {
		t.Errorf("digest = %q", base)
	}
	for name, got := range map[string]string{
		"another password":         digest(strings.Replace(labelled, "s3cret", "other", 1), "DEPLOY=1"),
		"another deploy":           digest(labelled, "DEPLOY=2"),
		"a default written down":   digest(labelled+"[signals]\nsecond = \"force\"\n", "DEPLOY=1"),
		"the same in another way":  digest(strings.Replace(labelled, "shutdown_timeout_secs = 10", `shutdown_timeout = "10s"`, 1)),
		"an empty variable":        digest(labelled, "DEPLOY="),
		"comments and blanks":      digest("# x\n\n"+labelled, "DEPLOY=1"),
		"the value from elsewhere": digest(labelled, "LASTCALL_REPORT_DIR=file"),
	} {
		if got != base {
			t.Errorf("%s: the digest differs", name)
		}
	}
	named, err := Parse("another name", []byte(labelled), nil)
	if err != nil {
		t.Fatal(err)
	}
	if named.Digest != base {
		t.Error("the digest depends on the file's name")
	}
	for name, got := range map[string]string{
		"another user":    digest(strings.Replace(labelled, "file:", "other:", 1)),
		"another label":   digest(strings.Replace(labelled, "env:DEPLOY", "env:OTHER", 1)),
		"another total":   digest(labelled, "LASTCALL_SHUTDOWN_TIMEOUT=11s"),
		"another command": digest(strings.Replace(labelled, `["true"]`, `["true", "x"]`, 1)),
	} {
		if got == base {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

// TestLabels: a variable that is not set, or set to nothing, leaves its label out and says so.
func TestLabels(t *testing.T) {
	text := small + "[service]\nlabels = { a = \"env:SET\", b = \"env:EMPTY\", c = \"env:UNSET\", d = \"text\", e = \"\" }\n"
	f, err := Parse("x.toml", []byte(text), lookup("SET=value", "EMPTY="))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "value", "d": "text", "e": ""}, f.Service.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	var got []string
	for _, w := range f.Warnings {
		got = append(got, string(w.Kind)+" "+w.Key)
	}
	if diff := cmp.Diff([]string{"label_unset service.labels.b", "label_unset service.labels.c"}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestMissingPrograms tells apart why a program cannot be started.
func TestMissingPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"program": 0o700, "plain": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("PATH", ".")
	for program, want := range map[string]string{
		"./program": "",
		"program":   "was found in the working directory only: write ./ in front of it",
		"./plain":   "cannot be executed",
		"./none":    "does not exist",
		"none":      "was not found in PATH",
		"./":        "is a directory",
	} {
		got := ""
		if _, err := exec.LookPath(program); err != nil {
			got = missing(program, err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}
