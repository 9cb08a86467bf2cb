package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

const (
	maxPrefetch = 65535
	maxName     = 255 // bytes of a queue's name or a consumer tag in AMQP 0-9-1
)

// validate reports what decoded and makes no sense.
func (d *decoder) validate(f *File) {
	if f.Service.Name == "" && d.given("service.name") {
		d.problem("service.name", "name is empty", "write a name, or remove the key: the program's name is used then")
	}
	d.lifecycle(f.Lifecycle)
	oneOf(d, "signals.second", f.Signals.Second, seconds)
	d.broker(&f.Broker)
	if f.Report.Keep < 1 {
		d.problem("report.keep", fmt.Sprintf("keep is %d", f.Report.Keep), "write a number of reports, 1 or more")
	}
	if f.Report.Dir == "" && d.given("report.dir") {
		d.problem("report.dir", "dir is empty", "name a directory, or remove the key: no report is written then")
	}
	if len(f.Subscriptions) == 0 {
		d.problem("subscription", "there is no subscription", "add a [[subscription]] with queue and exec")
	}
	queues, tags := make(map[string]int), make(map[string]int)
	for i, s := range f.Subscriptions {
		path := fmt.Sprintf("subscription[%d]", i)
		d.subscription(path, s)
		d.once(path+".queue", "queue", s.Queue, i, queues, "consume it once, with more concurrency")
		d.once(path+".consumer_tag", "consumer_tag", s.ConsumerTag, i, tags, "write another one, or remove it: a unique one is made then")
	}
}

// given reports whether the file holds the key.
func (d *decoder) given(path string) bool {
	_, ok := d.at[path]
	return ok
}

func (d *decoder) lifecycle(l Lifecycle) {
	const least, most = Duration(deadline.MinTotal), Duration(deadline.MaxTotal)
	if t := l.ShutdownTimeout; t < least || t > most {
		d.problem("lifecycle.shutdown_timeout", fmt.Sprintf("shutdown_timeout is %s", t),
			fmt.Sprintf("write a duration from %s to %s", least, most))
	}
	if t := l.ForceWindow; t <= 0 || t > most {
		d.problem("lifecycle.force_window", fmt.Sprintf("force_window is %s", t), fmt.Sprintf("write a duration above 0 and up to %s", most))
	}
	if d.set("lifecycle.platform_grace") && l.PlatformGrace <= 0 {
		d.problem("lifecycle.platform_grace", fmt.Sprintf("platform_grace is %s", l.PlatformGrace),
			"write what the platform grants, or remove it if that is not known")
	}
	if l.PlatformPrestop < 0 {
		d.problem("lifecycle.platform_prestop", fmt.Sprintf("platform_prestop is %s", l.PlatformPrestop), `write how long it takes, "0s" if there is none`)
	}
	if l.StartRetry < 0 {
		d.problem("lifecycle.start_retry", fmt.Sprintf("start_retry is %s", l.StartRetry), `write how long to try, "0s" for one try`)
	}
}

// set reports whether the file, the environment or a flag gave the key.
func (d *decoder) set(path string) bool {
	_, elsewhere := d.origin[path]
	return elsewhere || d.given(path)
}

func (d *decoder) broker(b *Broker) {
	oneOf(d, "broker.kind", b.Kind, kinds)
	for _, wait := range []struct {
		key   string
		value Duration
	}{{"reconnect_max", b.ReconnectMax}, {"give_up_after", b.GiveUpAfter}} {
		if wait.value <= 0 {
			d.problem("broker."+wait.key, fmt.Sprintf("%s is %s", wait.key, wait.value), "write a duration above 0, or remove it")
		}
	}
	if b.Kind == Memory {
		for _, key := range []string{"url", "url_file"} {
			if d.given("broker." + key) {
				d.problem("broker."+key, key+" has no meaning for the memory broker", `remove it, or write kind = "rabbitmq"`)
			}
		}
		b.URL, b.URLFile = "", ""
		return
	}
	const where = "set url or url_file in [broker], or LASTCALL_BROKER_URL"
	switch {
	case b.URLFile != "":
		if _, err := b.Address(); err != nil {
			d.problem("broker.url_file", err.Error(), "write the broker's URL into a plain file and name that")
		}
	case b.URL != "":
		if _, fault := b.URL.parse(); fault != "" {
			d.problem("broker.url", "url "+fault+" (it is not shown, it may hold a password)", urlForm)
		}
	case d.given("broker.url"):
		d.problem("broker.url", "url is empty", urlForm)
	case d.given("broker.url_file"):
		d.problem("broker.url_file", "url_file is empty", "name the file that holds the broker's URL")
	case !d.bad["broker"] && !d.bad["broker.kind"]:
		d.problem("broker", "the broker has no address", where)
	}
}

func (d *decoder) subscription(path string, s Subscription) {
	problem := func(key, what, change string) { d.problem(path+"."+key, what, change) }
	if s.Queue == "" {
		problem("queue", "the subscription has no queue", `name one: queue = "orders"`)
	}
	for _, name := range []struct{ key, value string }{{"queue", s.Queue}, {"consumer_tag", s.ConsumerTag}} {
		if len(name.value) > maxName {
			problem(name.key, fmt.Sprintf("%s is %d bytes long", name.key, len(name.value)), fmt.Sprintf("write at most %d bytes", maxName))
		}
	}
	oneOf(d, path+".declare", s.Declare, declares)
	oneOf(d, path+".drain", s.Drain, drains)
	oneOf(d, path+".on_error", s.OnError, onErrors)
	oneOf(d, path+".term_exit_zero", s.TermExitZero, exitZero)
	oneOf(d, path+".duplicate_start", s.DuplicateStart, duplicates)
	if s.Prefetch < 1 && d.given(path+".prefetch") || s.Prefetch > maxPrefetch {
		problem("prefetch", fmt.Sprintf("prefetch is %d", s.Prefetch), fmt.Sprintf("write a number from 1 to %d", maxPrefetch))
	}
	if s.Concurrency < 1 {
		problem("concurrency", fmt.Sprintf("concurrency is %d", s.Concurrency), "write a number of handlers, 1 or more")
	}
	if s.HandlerTimeout <= 0 && d.given(path+".handler_timeout") {
		problem("handler_timeout", fmt.Sprintf("handler_timeout is %s", s.HandlerTimeout),
			"write how long one handler may take, or remove it: the graceful window is used then")
	}
	if s.RequeueDelay < 0 {
		problem("requeue_delay", fmt.Sprintf("requeue_delay is %s", s.RequeueDelay), `write how long to wait, "0s" for not at all`)
	}
	if s.MaxBodyBytes < 0 {
		problem("max_body_bytes", fmt.Sprintf("max_body_bytes is %d", s.MaxBodyBytes), "write a number of bytes, or remove it: there is no limit then")
	}
	if len(s.Arguments) > 0 && s.Declare == "passive" {
		problem("arguments", "arguments are given for a queue that is not declared", `write declare = "classic" or "quorum", or remove them`)
	}
	if _, ok := s.Arguments["x-queue-type"]; ok {
		problem("arguments.x-queue-type", "x-queue-type is what declare says", "remove it")
	}
	d.command(path+".exec", s.Exec)
}

func (d *decoder) command(path string, command []string) {
	const example = `exec = ["./handle-order"]`
	switch {
	case len(command) == 0 && !d.given(path):
		d.problem(path, "the subscription has no exec", "name the program that handles a message: "+example)
	case len(command) == 0 || command[0] == "":
		d.problem(path, "exec names no program", "write the program and its arguments: "+example)
	case slices.ContainsFunc(command, func(s string) bool { return strings.ContainsRune(s, 0) }):
		d.problem(path, "exec holds a zero byte", "remove it: no program can be given one")
	}
}

// once reports a name that an earlier subscription has already.
func (d *decoder) once(path, key, name string, i int, seen map[string]int, change string) {
	first, twice := seen[name]
	switch {
	case name == "":
	case twice:
		line, _ := d.source.at(d.at[fmt.Sprintf("subscription[%d].%s", first, key)])
		d.problem(path, fmt.Sprintf("%s %s is taken already, in line %d", key, echo(name), line), change)
	default:
		seen[name] = i
	}
}

// oneOf reports a word that the enumeration does not have.
func oneOf[T any](d *decoder, path, word string, known words[T]) {
	list := known.list()
	if slices.Contains(list, word) {
		return
	}
	key := path[strings.LastIndexByte(path, '.')+1:]
	what := fmt.Sprintf("%s is %s", key, echo(word))
	if near, ok := nearest(word, list); ok {
		d.problem(path, what, fmt.Sprintf("write %q", near))
		return
	}
	for i := range list {
		list[i] = fmt.Sprintf("%q", list[i])
	}
	d.problem(path, what, "write one of: "+strings.Join(list, ", "))
}

// warnings lists what is valid and hardly meant so, and replaces "env:NAME" in labels.
func (d *decoder) warnings(f *File, env func(string) (string, bool)) []Warning {
	var out []Warning
	warn := func(kind WarningKind, path, what, change string) {
		out = append(out, Warning{kind, d.describe(path, what, change)})
	}
	d.expand(f, env, warn)
	l := f.Lifecycle
	total := time.Duration(l.ShutdownTimeout)
	if g := l.Grace(); !g.Fits(total) {
		change := fmt.Sprintf("raise the platform's grace to %s", Duration(g.Needed(total)))
		if largest := g.Largest(total); g.Needed(largest) <= g.Granted {
			change += fmt.Sprintf(", or lower shutdown_timeout to %s", Duration(largest))
		}
		warn(GraceTooSmall, "lifecycle.platform_grace", fmt.Sprintf(
			"the platform grants %s and %s are needed: shutdown_timeout %s + platform_prestop %s + 1s",
			l.PlatformGrace, Duration(g.Needed(total)), l.ShutdownTimeout, l.PlatformPrestop), change)
	}
	graceful := Duration(l.graceful())
	for i, s := range f.Subscriptions {
		path := fmt.Sprintf("subscription[%d].", i)
		if s.HandlerTimeout > graceful {
			warn(HandlerOutlastsDrain, path+"handler_timeout", fmt.Sprintf(
				"handler_timeout %s is longer than the graceful window of %s, so that a stop may cut handlers short",
				s.HandlerTimeout, graceful), fmt.Sprintf("lower it to %s, or give the shutdown more time", graceful))
		}
		if s.Prefetch < s.Concurrency {
			warn(PrefetchBelowConcurrency, path+"prefetch", fmt.Sprintf("prefetch %d is below concurrency %d, so that at most %d handlers ever run",
				s.Prefetch, s.Concurrency, s.Prefetch), fmt.Sprintf("raise prefetch to %d or more, or lower concurrency", s.Concurrency))
		}
		if _, err := exec.LookPath(s.Exec[0]); err != nil {
			warn(ProgramNotFound, path+"exec", fmt.Sprintf("program %s %s", echo(s.Exec[0]), missing(s.Exec[0], err)),
				"install it, or name one that is there")
		}
	}
	return out
}

// missing says why a program cannot be started.
func missing(program string, err error) string {
	switch {
	case errors.Is(err, exec.ErrDot):
		return "was found in the working directory only: write ./ in front of it"
	case errors.Is(err, fs.ErrPermission):
		return "cannot be executed"
	case errors.Is(err, syscall.EISDIR):
		return "is a directory"
	case strings.ContainsRune(program, '/'):
		return "does not exist"
	default:
		return "was not found in PATH"
	}
}

// expand replaces the labels that name environment variables. One that is not set is left out: no reason not to start.
func (d *decoder) expand(f *File, env func(string) (string, bool), warn func(kind WarningKind, path, what, change string)) {
	resolved := make(map[string]string, len(f.Service.Labels))
	for _, key := range slices.Sorted(maps.Keys(f.Service.Labels)) {
		value := f.Service.Labels[key]
		name, named := strings.CutPrefix(value, "env:")
		if !named {
			resolved[key] = value
			continue
		}
		if env != nil {
			if value, ok := env(name); ok && value != "" {
				resolved[key] = value
				continue
			}
		}
		warn(LabelUnset, join("service.labels", key), fmt.Sprintf("label %s is left out: the environment variable %s is not set", echo(key), echo(name)),
			"set it, or remove the label")
	}
	f.Service.Labels = resolved
}
