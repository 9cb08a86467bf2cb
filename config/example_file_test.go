package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

const examplePath = "../config.example.toml"

// lookup is an environment made of name=value pairs.
func lookup(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if value, ok := strings.CutPrefix(p, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

func TestExampleLoads(t *testing.T) {
	f, err := Parse("config.example.toml", read(t, examplePath), lookup("DEPLOY_ID=d-17"))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Warnings) != 1 || f.Warnings[0].Kind != ProgramNotFound {
		t.Errorf("warnings = %v, want only that the example's program is not there", f.Warnings)
	}
	f.Warnings, f.Digest = nil, ""
	want := &File{
		Name:      "config.example.toml",
		Service:   Service{Name: "orders", Labels: map[string]string{"deploy": "d-17", "team": "fulfilment"}},
		Lifecycle: Lifecycle{ShutdownTimeout: sec(30), ForceWindow: sec(1), PlatformGrace: sec(45)},
		Signals:   Signals{Second: "force"},
		Broker:    Broker{Kind: RabbitMQ, URL: "amqp://guest:guest@127.0.0.1:5672/", ReconnectMax: sec(10), GiveUpAfter: sec(300)},
		Subscriptions: []Subscription{{Queue: "orders", Declare: "quorum", Arguments: map[string]any{"x-delivery-limit": int64(20)},
			Prefetch: 64, Concurrency: 16, HandlerTimeout: sec(25), Drain: "auto", Exec: []string{"./handle-order"},
			TermExitZero: "interrupted", OnError: "requeue", RequeueDelay: sec(1), DuplicateStart: "hold"}},
		Report: Report{Dir: "reports", Keep: 100},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("the example (-want +got):\n%s", diff)
	}
}

func sec(n int) Duration { return Duration(n) * Duration(time.Second) }

// exampleKey is one key of the example with what is said in front of it.
type exampleKey struct {
	path, comment string
	set           bool
}

var (
	keyLine     = regexp.MustCompile(`^(#?)([a-z_]+) = `)
	headerLine  = regexp.MustCompile(`^\[+([a-z_.]+)\]+$`)
	defaultText = regexp.MustCompile(`Default: ("[^"]*"|[^ ."]+)`)
	envText     = regexp.MustCompile(`Environment: (LASTCALL_[A-Z_]+)`)
)

// exampleKeys reads the example line by line: comments, then the key they are about.
func exampleKeys(t *testing.T) map[string]exampleKey {
	out := make(map[string]exampleKey)
	section, comment := "", ""
	for line := range strings.Lines(string(read(t, examplePath))) {
		line = strings.TrimSpace(line)
		if m := headerLine.FindStringSubmatch(line); m != nil {
			if head, key, nested := strings.Cut(m[1], "."); nested {
				out[m[1]] = exampleKey{path: head + "." + key, comment: comment, set: true}
			}
			section, comment = m[1], ""
		} else if m := keyLine.FindStringSubmatch(line); m != nil {
			path := section + "." + m[2]
			out[path] = exampleKey{path: path, comment: comment, set: m[1] == ""}
			comment = ""
		} else if text, ok := strings.CutPrefix(line, "# "); ok {
			comment += text + " "
		} else {
			comment = ""
		}
	}
	return out
}

// TestExampleIsComplete checks by the File's own tags that every key stands in the example, and that the default and the
// environment variable named there are the real ones.
func TestExampleIsComplete(t *testing.T) {
	shown := exampleKeys(t)
	minimal, err := Parse("minimal.toml", read(t, configs+"/good/minimal.toml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, section := range fields(reflect.ValueOf(minimal).Elem()) {
		table := section.value
		if table.Kind() == reflect.Slice {
			table = table.Index(0)
		}
		for _, key := range fields(table) {
			path := section.key + "." + key.key
			example, ok := shown[path]
			if !ok {
				t.Errorf("%s does not stand in the example", path)
				continue
			}
			seen++
			checkDefault(t, example, key)
			env := ""
			if m := envText.FindStringSubmatch(example.comment); m != nil {
				env = m[1]
			}
			if env != key.env {
				t.Errorf("%s: the example names the variable %q, it is %q", path, env, key.env)
			}
		}
	}
	for path := range shown {
		if strings.HasPrefix(path, "subscription.arguments.") {
			seen++
		}
	}
	if seen != len(shown) {
		t.Errorf("the example shows %d keys, of which %d exist", len(shown), seen)
	}
}

func checkDefault(t *testing.T, example exampleKey, key field) {
	if example.path == "broker.kind" {
		key.value = reflect.ValueOf(defaults().Broker.Kind) // the minimal file names another one
	}
	m := defaultText.FindStringSubmatch(example.comment)
	switch {
	case m == nil:
		if !strings.Contains(example.comment, "Required.") {
			t.Errorf("%s: the example names no default", example.path)
		}
		return
	case m[1] == "none", m[1] == "the": // "the program's name" is for managed to find
		if !key.value.IsZero() && key.value.Len() > 0 {
			t.Errorf("%s: the default is %v, the example says there is none", example.path, key.value)
		}
		return
	}
	var doc struct{ V any }
	if _, err := toml.Decode("v = "+m[1], &doc); err != nil {
		t.Fatalf("%s: default %s: %v", example.path, m[1], err)
	}
	var got any
	switch v := key.value.Interface().(type) {
	case Duration:
		if got = v.String(); key.seconds {
			got = int64(time.Duration(v) / time.Second)
		}
	case int:
		got = int64(v)
	default:
		got = v
	}
	if diff := cmp.Diff(doc.V, got); diff != "" {
		t.Errorf("%s: default (-example +real):\n%s", example.path, diff)
	}
}

// TestExampleAlternatives takes the # from every key that is not set, and puts it in front of the one it stands in for.
func TestExampleAlternatives(t *testing.T) {
	text := string(read(t, examplePath))
	instead := map[string]string{"shutdown_timeout": "shutdown_timeout_secs", "url_file": "url"}
	n := 0
	for path, key := range exampleKeys(t) {
		if key.set {
			continue
		}
		n++
		name := path[strings.LastIndexByte(path, '.')+1:]
		changed := strings.Replace(text, "\n#"+name+" = ", "\n"+name+" = ", 1)
		if other := instead[name]; other != "" {
			changed = strings.Replace(changed, "\n"+other+" = ", "\n#"+other+" = ", 1)
		}
		if name == "url_file" {
			changed = strings.Replace(changed, "/run/secrets/broker-url", secretFile(t, "amqp://h"), 1)
		}
		if _, err := Parse(name, []byte(changed), nil); err != nil {
			t.Errorf("with %s set: %v", name, err)
		}
	}
	if n != 3 {
		t.Errorf("%d keys are not set in the example, want 3", n)
	}
}
