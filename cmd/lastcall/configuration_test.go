//go:build linux

package main_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
)

// configuration is a file for `run`. Zero fields are left out; without url and urlFile it names the test broker.
type configuration struct {
	url, urlFile string
	total        time.Duration
	lifecycle    []string // more lines of [lifecycle]
	queue        string
	exec         []string
	subscription []string // more lines of [[subscription]]
	more         []string // lines at the end
}

// write writes the file into a folder of its own, which it returns.
func (c configuration) write(t *testing.T) (dir string) {
	t.Helper()
	broker := fmt.Sprintf("url_file = %q", c.urlFile)
	if c.urlFile == "" {
		broker = fmt.Sprintf("url = %q", cmp.Or(c.url, rabbittest.URL()))
	}
	if c.total > 0 {
		c.lifecycle = append(c.lifecycle, fmt.Sprintf("shutdown_timeout = \"%s\"", c.total))
	}
	if c.exec == nil {
		c.exec = []string{"cat"}
	}
	command, err := json.Marshal(c.exec)
	must(t, err)
	lines := slices.Concat(
		[]string{"[service]", `name = "orders"`, "[broker]", broker, "[report]", `dir = "reports"`, "[lifecycle]"}, c.lifecycle,
		[]string{"[[subscription]]", fmt.Sprintf("queue = %q", cmp.Or(c.queue, "none")), "exec = " + string(command)}, c.subscription,
		c.more)
	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "lastcall.toml"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return dir
}

// through returns the test broker's URL with another address.
func through(t *testing.T, addr string) string {
	t.Helper()
	u, err := url.Parse(rabbittest.URL())
	must(t, err)
	u.Host = addr
	return u.String()
}

// brokerAddr is the test broker's host and port.
func brokerAddr(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(rabbittest.URL())
	must(t, err)
	if u.Port() == "" {
		return u.Host + ":5672"
	}
	return u.Host
}

// shell is an exec whose handler says that it has started.
func shell(script string) []string { return []string{"sh", "-c", "echo started; " + script} }

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("m%d", i+1)
	}
	return out
}
