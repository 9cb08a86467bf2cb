package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for _, c := range []struct{ url, shown, fault string }{
		{"amqp://guest:s3cret@127.0.0.1:5672/", "amqp://guest@127.0.0.1:5672/", ""},
		{"amqps://u:s3cret@[::1]:5671/v%2Fh?heartbeat=1&auth=s3cret", "amqps://u@[::1]:5671/v%2Fh", ""},
		{"amqp://u:p%40%2Fs3cret@h", "amqp://u@h", ""},
		{"amqp://u:p@s3cret@h", "amqp://u@h", ""},
		{"amqp://h", "amqp://h", ""},
		{"", "", "does not begin with amqp:// or amqps://"},
		{"u:s3cret@h", "(unreadable URL)", "does not begin with amqp:// or amqps://"},
		{"amqp://u:s3cret@h:1/%zz", "(unreadable URL)", "cannot be read as a URL"},
		{"amqp://u:s3cret@/v", "(unreadable URL)", "names no host"},
		{"amqp:u:s3cret", "(unreadable URL)", "names no host"},
		{"amqp://u:12/s3cret@h", "(unreadable URL)", "has an @ behind its host"},
		{"amqp://u:12?s3cret@h", "(unreadable URL)", "has an @ behind its host"},
		{"amqp://u:12#s3cret@h", "(unreadable URL)", "has an @ behind its host"},
		{"amqp://u:s3cret@h:0", "(unreadable URL)", "names a port outside 1 to 65535"},
		{"amqp://u:s3cret@h:65536", "(unreadable URL)", "names a port outside 1 to 65535"},
		{"amqp://u:s3cret\x7f@h", "(unreadable URL)", "cannot be read as a URL"},
	} {
		if _, fault := URL(c.url).parse(); fault != c.fault {
			t.Errorf("%q: %q, want %q", c.url, fault, c.fault)
		}
		if got := URL(c.url).String(); got != c.shown {
			t.Errorf("%q is shown as %q, want %q", c.url, got, c.shown)
		}
	}
}

// TestURLPrints prints a configuration in every way there is.
func TestURLPrints(t *testing.T) {
	b := Broker{URL: "amqp://guest:s3cret@h/"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", b.URL, "broker", b)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "url", b.URL, "broker", b)
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{fmt.Sprint(b), fmt.Sprintf("%+v %#v %q %x", b, b, b, b), string(text), log.String()} {
		if strings.Contains(got, "s3cret") || strings.Contains(got, fmt.Sprintf("%x", "s3cret")) {
			t.Errorf("the password is printed: %s", got)
		}
		if !strings.Contains(got, "guest@h") {
			t.Errorf("the address is not printed: %s", got)
		}
	}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAddress(t *testing.T) {
	path := secretFile(t, "amqp://u:one@h/\n")
	b := Broker{Kind: RabbitMQ, URLFile: path}
	address := func() URL {
		u, err := b.Address()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	if got := address(); got != "amqp://u:one@h/" {
		t.Errorf("address = %q", string(got))
	}
	if err := os.WriteFile(path, []byte("amqp://u:two@h/"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := address(); got != "amqp://u:two@h/" {
		t.Errorf("after the password was rotated, address = %q", string(got))
	}
	for name, broken := range map[string]string{
		"a URL of another kind": secretFile(t, "http://u:s3cret@h/"),
		"too large":             secretFile(t, "amqp://u:s3cret@h/"+strings.Repeat("x", maxURLFile)),
		"a directory":           t.TempDir(),
		"a device":              "/dev/zero",
		"missing":               filepath.Join(t.TempDir(), "none"),
	} {
		if u, err := (Broker{URLFile: broken}).Address(); err == nil || u != "" || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q, %v; want an error without the password", name, string(u), err)
		}
	}
}
