package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// Overrides are values from the command line: they beat environment and file. Zero fields change nothing.
type Overrides struct {
	ShutdownTimeout time.Duration // --shutdown-timeout
	PlatformGrace   time.Duration // --grace
	BrokerURL       string        // --broker-url
	ReportDir       string        // --report-dir
}

// Load reads and parses a file with the process's environment. Every error is an *Error.
func Load(path string) (*File, error) { return Overrides{}.Load(path) }

// Parse reads the text of a configuration; name is what problems call it. env looks environment variables up, as os.LookupEnv
// does; nil means that none is set, and one that is set and empty counts as unset. Every error is an *Error.
func Parse(name string, data []byte, env func(string) (string, bool)) (*File, error) {
	return Overrides{}.Parse(name, data, env)
}

// Load is [Load] with o on top.
func (o Overrides) Load(path string) (*File, error) {
	data, err := readSmall(path, maxFile)
	if err != nil {
		p := Problem{Source: path, What: "cannot be read: " + reason(err), Change: "name a readable configuration file"}
		return nil, &Error{Problems: []Problem{p}, Err: err}
	}
	return o.Parse(path, data, os.LookupEnv)
}

// Parse is [Parse] with o on top.
func (o Overrides) Parse(name string, data []byte, env func(string) (string, bool)) (*File, error) {
	text := string(data)
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} { // the marks that the TOML parser takes off
		if rest, ok := strings.CutPrefix(text, mark); ok {
			text = rest
			break
		}
	}
	d := &decoder{source: source{name, text}, at: make(map[string]int), origin: make(map[string]string), bad: make(map[string]bool)}
	var values map[string]any
	if len(text) > maxFile {
		d.problem("", fmt.Sprintf("is larger than %d bytes", maxFile), "name a configuration file")
		return nil, &Error{Problems: d.problems}
	}
	if _, err := toml.Decode(text, &values); err != nil {
		return nil, &Error{Problems: []Problem{d.syntax(err)}}
	}

	f := defaults()
	f.Name = name
	d.table("", positions(text), values, reflect.ValueOf(&f).Elem())
	d.oneURL(&f)
	d.environment(&f, env)
	d.overrides(&f, o)
	d.validate(&f)
	if len(d.problems) > 0 {
		inOrder(d.problems, func(p Problem) Problem { return p })
		return nil, &Error{Problems: d.problems}
	}

	f.complete()
	f.Digest = f.digest()
	f.Warnings = d.warnings(&f, env)
	inOrder(f.Warnings, func(w Warning) Problem { return w.Problem })
	return &f, nil
}

const (
	maxFile    = 256 << 10
	maxURLFile = 4 << 10
)

// syntax reports text that is no TOML. The library's words are used where they hold nothing of the text but key names.
func (d *decoder) syntax(err error) Problem {
	p := Problem{Source: d.name, What: "this is not TOML",
		Change: "correct it here or just before: texts stand in quotes, numbers, true and false do not, and a key is given once"}
	if parse, ok := errors.AsType[toml.ParseError](err); ok {
		p.Line, p.Col = d.source.at(parse.Position.Start)
		if harmless(parse.Message) {
			p.What += ": " + strings.TrimSuffix(parse.Message, ".")
		}
	}
	return p
}

var quotedRun = regexp.MustCompile(`"[^"]*"|'[^']*'`)

// harmless reports whether everything quoted in a message is a single character or a path of known keys.
func harmless(message string) bool {
	var known []string
	for _, f := range fields(reflect.ValueOf(defaults())) {
		table := f.value
		if table.Kind() == reflect.Slice {
			table = reflect.Zero(table.Type().Elem())
		}
		known = append(append(known, f.key), keys(fields(table))...)
	}
	for _, run := range quotedRun.FindAllString(message, -1) {
		inner := run[1 : len(run)-1]
		if utf8.RuneCountInString(inner) <= 1 {
			continue
		}
		for part := range strings.SplitSeq(inner, ".") {
			if !slices.Contains(known, part) {
				return false
			}
		}
	}
	return !strings.ContainsAny(quotedRun.ReplaceAllString(message, ""), `"'`)
}

// oneURL refuses a file that says twice where the broker is.
func (d *decoder) oneURL(f *File) {
	if f.Broker.URL != "" && f.Broker.URLFile != "" {
		d.twice("broker.url_file", "url_file", "url")
	}
}

// environment applies the variables that are set.
func (d *decoder) environment(f *File, env func(string) (string, bool)) {
	if env == nil {
		return
	}
	for _, section := range fields(reflect.ValueOf(f).Elem()) {
		if section.value.Kind() != reflect.Struct {
			continue
		}
		for _, key := range fields(section.value) {
			if key.env == "" || key.seconds {
				continue
			}
			if text, ok := env(key.env); ok && text != "" {
				path := join(section.key, key.key)
				d.from(path, key.env, f)
				d.text(path, text, key)
			}
		}
	}
}

func (d *decoder) overrides(f *File, o Overrides) {
	if o.ShutdownTimeout != 0 {
		d.from("lifecycle.shutdown_timeout", "--shutdown-timeout", f)
		f.Lifecycle.ShutdownTimeout = Duration(o.ShutdownTimeout)
	}
	if o.PlatformGrace != 0 {
		d.from("lifecycle.platform_grace", "--grace", f)
		f.Lifecycle.PlatformGrace = Duration(o.PlatformGrace)
	}
	if o.BrokerURL != "" {
		d.from("broker.url", "--broker-url", f)
		f.Broker.URL = URL(o.BrokerURL)
	}
	if o.ReportDir != "" {
		d.from("report.dir", "--report-dir", f)
		f.Report.Dir = o.ReportDir
	}
}

// from notes that the value at path comes from a variable or flag, before it is set: problems with it are that one's.
func (d *decoder) from(path, origin string, f *File) {
	d.origin[path] = origin
	delete(d.bad, path)
	if path == "broker.url" {
		f.Broker.URLFile = ""
	}
}

// Address returns the broker's address: URL, or what URLFile holds now, so that a rotated password is found at the next dial.
// Its errors name the file and hold nothing of its text. It is safe for concurrent use.
func (b Broker) Address() (URL, error) {
	if b.URLFile == "" {
		return b.URL, nil
	}
	data, err := readSmall(b.URLFile, maxURLFile)
	if err != nil {
		return "", fmt.Errorf("url_file %s cannot be read: %s", echo(b.URLFile), reason(err))
	}
	address := URL(strings.TrimSpace(string(data)))
	if _, fault := address.parse(); fault != "" {
		return "", fmt.Errorf("what url_file %s holds %s", echo(b.URLFile), fault)
	}
	return address, nil
}

var (
	errNotPlain = errors.New("it is not a plain file")
	errTooLarge = errors.New("it is too large")
)

// readSmall reads a plain file of at most limit bytes. Opening anything else could block for good.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errNotPlain}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	return data, err
}

// reason says why without the path, which the message has already.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}
