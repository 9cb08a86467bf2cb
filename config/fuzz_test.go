package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const planted = "pl4nt3dPassw0rd"

// FuzzParse plants a URL with a password somewhere in a file, in the environment and behind a flag. Whatever stands around it,
// nothing panics, nothing that is printed holds the password, and every problem is in order.
func FuzzParse(f *testing.F) {
	f.Add("[broker]\nurl = \"", "\"\n[[subscription]]\nqueue=\"a\"\nexec=[\"true\"]", uint8(0))
	f.Add("[broker]\nurl = ", "", uint8(0))
	f.Add("[broker]\nkind = \"", "\"", uint8(1))
	f.Add("\"", "\" = 1\n\"x\" = 2", uint8(2))
	f.Add("[\"", "\"]\n", uint8(3))
	f.Add("[[subscription]]\nqueue = \"", "\"\ndrain = 'x'\nexec = 'y'", uint8(4))
	f.Add("[[subscription]]\nexec = [\"", "\"]", uint8(0))
	f.Add("[service]\nlabels = { x = \"env:", "\" }", uint8(0))
	f.Add("[broker]\nurl = 'amqp://h:1/", "'", uint8(0))
	f.Add("[broker]\nurl = \"\"\"\n", "\"\"\"", uint8(0))
	f.Add("a = 12", "", uint8(0))
	for _, path := range []string{"bad/types.toml", "bad/unknown_keys.toml", "bad/subscriptions.toml", "good/warnings.toml"} {
		f.Add(string(read(f, configs+"/"+path)), "", uint8(0))
	}
	f.Fuzz(func(t *testing.T, before, after string, outside uint8) {
		unit := "amqp://user:" + planted + "@host/"
		var env func(string) (string, bool)
		if outside&1 != 0 {
			env = func(string) (string, bool) { return unit, true }
		}
		var flags Overrides
		if outside&2 != 0 {
			flags.BrokerURL = before + unit + after
		}
		if outside&4 != 0 {
			unit = strings.ToUpper(unit)
		}
		file, err := flags.Parse("fuzz.toml", []byte(before+unit+after), env)
		var printed []string
		if err == nil {
			for _, w := range file.Warnings {
				printed = append(printed, w.String(), w.Key)
			}
			printed = append(printed, file.Digest, fmt.Sprintf("%+v", file.Broker))
		} else {
			e, ok := errors.AsType[*Error](err)
			if !ok || len(e.Problems) == 0 {
				t.Fatalf("error %v is no list of problems", err)
			}
			if !slices.IsSortedFunc(e.Problems, byPlace) {
				t.Fatalf("not in order:\n%v", err)
			}
			printed = append(printed, err.Error(), fmt.Sprintf("%+v", e))
		}
		for _, text := range printed {
			if strings.Contains(strings.ToLower(text), strings.ToLower(planted)) {
				t.Fatalf("the password is printed: %s", text)
			}
		}
	})
}

// TestAllProblemsInOrder puts slips into a file at random, and expects exactly those, each in its line, in order.
func TestAllProblemsInOrder(t *testing.T) {
	// Each line as it should be, and as it should not.
	sections := [][][2]string{
		{{"[service]", ""}, {`name = "orders"`, "name = 1"}, {`labels = {}`, `lables = {}`}},
		{{"[lifecycle]", ""}, {`shutdown_timeout_secs = 30`, `shutdown_timeout_secs = -1`}, {`force_window = "1s"`, `force_window = "1"`}, {"# x", "x = 1"}},
		{{"[broker]", ""}, {`kind = "rabbitmq"`, `kind = "nats"`}, {`url = "amqp://h/"`, `url = "http://h/"`}},
		{{"[signals]", ""}, {`second = "force"`, `second = "wait"`}},
		{{"[[subscription]]", ""}, {`queue = "a"`, `queue = ""`}, {`exec = ["true"]`, `exec = []`}, {`drain = "auto"`, `Drain = "auto"`}},
		{{"[[subscription]]", ""}, {`queue = "b"`, `queue = "a\nb#"` + "\nprefetch = 0"}, {`exec = ['''` + "\n#" + `x''']`, `exec = "true"`}},
		{{"[report]", ""}, {`keep = 7`, `keep = 0`}},
	}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var want []int
		line := 1
		for _, section := range rapid.Permutation(sections).Draw(t, "sections") {
			header, rest := section[0], rapid.Permutation(section[1:]).Draw(t, "keys")
			for i, pair := range append([][2]string{header}, rest...) {
				got := pair[0]
				if i > 0 && rapid.Bool().Draw(t, "slip") {
					got = pair[1]
					want = append(want, line+strings.Count(got, "\n"))
				}
				text.WriteString(got + "\n")
				line += strings.Count(got, "\n") + 1
			}
		}
		file, err := Parse("x.toml", []byte(text.String()), nil)
		if len(want) == 0 {
			if err != nil {
				t.Fatalf("no slip and an error: %v\n%s", err, text.String())
			}
			if file.Lifecycle.ShutdownTimeout != sec(30) {
				t.Fatalf("shutdown timeout %s", file.Lifecycle.ShutdownTimeout)
			}
			return
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("error = %v", err)
		}
		var got []int
		for _, p := range e.Problems {
			got = append(got, p.Line)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("problems in lines %v, want %v\n%v\n%s", got, want, err, text.String())
		}
	})
}
