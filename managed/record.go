package managed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/signals"
	"github.com/lastcall-go/lastcall/transport"
)

// seal ends what listened until now, places what is left, and builds the one report. It runs on every path, once.
func (c *Consumer) seal(rec coordinator.Record) {
	c.mu.Lock()
	subs, links, tasks, monitor, monitorRes := c.subs, c.links, c.tasks, c.monitor, c.monitorRes
	c.mu.Unlock()
	joined := c.stopMonitor(monitor, monitorRes, rec.Abandoned)
	if rec.Abandoned {
		for _, l := range links {
			if s, _ := l.live(); s != nil {
				s.conn.Cut()
			}
		}
	}
	joined = c.joinLoops(subs, rec.Abandoned) && joined
	for _, sub := range subs {
		sub.settleRest()
	}
	for _, l := range links {
		joined = joined && l.joined()
	}
	for _, t := range tasks {
		t.mu.Lock()
		if t.abandoned {
			joined = joined && !rec.Abandoned
		}
		t.mu.Unlock()
	}
	select {
	case <-c.start.done:
	default:
		c.start.mu.Lock()
		joined = joined && !c.start.begun
		c.start.mu.Unlock()
	}
	joined = joined && !rec.Abandoned
	if c.runtime != nil && joined {
		c.runtime.End(deadline.Now(), nil)
	}
	d := c.document(rec, joined)
	raw, err := report.Seal(d)
	if err != nil {
		c.log.Error("the report could not be sealed", "error", report.NewError(err).Text)
		return
	}
	c.sealed.Store(&sealed{report: *d, json: raw})
}

// joinLoops waits for the workers of all that was not abandoned, and reports whether they have left. On abandon nobody waits.
func (c *Consumer) joinLoops(subs []*subscription, abandoned bool) bool {
	if abandoned {
		return false
	}
	ctx, cancel := deadline.Timeout(context.Background(), max(min(c.coordinator.Root().Left()/2, loopPatience), leastPatience), errLoopPatience)
	defer cancel()
	joined := true
	for _, sub := range subs {
		joined = sub.landed(ctx) && joined
	}
	return joined
}

var errLoopPatience = errors.New("lastcall: the workers did not leave in time")

// stopMonitor ends the signal monitor and reports whether it has ended. On abandon the monitor itself may be the one that
// waits for the seal, and is not waited for.
func (c *Consumer) stopMonitor(m *signals.Monitor, res *resources.Tracked, abandoned bool) bool {
	if m == nil || res == nil {
		return true
	}
	res.Begin(deadline.Now())
	m.Stop()
	if abandoned {
		return false
	}
	patience := deadline.NewTimer(max(min(c.coordinator.Root().Left()/2, monitorPatience), leastPatience))
	defer patience.Stop()
	select {
	case <-m.Joined():
		res.End(deadline.Now(), nil)
		return true
	case <-patience.C:
		return false
	}
}

const (
	monitorPatience = time.Second // it is never busy for long, but the machine may be
	leastPatience   = 5 * time.Millisecond
	loopPatience    = time.Second
	stackPatience   = 500 * time.Millisecond // all goroutines of a busy machine
)

// document puts the observations together. What follows from them the report package judges.
func (c *Consumer) document(rec coordinator.Record, joined bool) *report.ShutdownReport {
	d := &report.ShutdownReport{
		Schema:   report.SchemaID,
		ReportID: report.NewID(rec.Start),
		Service: report.Service{
			Name: c.cfg.Service.Name, Version: c.cfg.Service.Version, Instance: c.cfg.Service.Instance, PID: os.Getpid(),
			Labels: c.cfg.Service.Labels, Go: runtime.Version(), Lastcall: Version(),
		},
		Config:        report.ConfigInfo{Digest: c.cfg.Digest},
		Trigger:       rec.Trigger,
		Triggers:      rec.Triggers,
		Budget:        rec.Budget,
		Force:         rec.Force,
		Counts:        rec.Counts,
		Phases:        rec.Phases,
		RuntimeJoined: joined,
		Resources:     c.registry.Report(rec.Start),
	}
	if c.grace.Granted > 0 {
		us := c.grace.Granted.Microseconds()
		d.Config.PlatformGraceUS = &us
	}
	c.countTasks(d)
	c.describeBroker(d)
	c.describeDeliveries(d, rec)
	c.describeFindings(d)
	return d
}

// countTasks adds the errors and panics of tasks, which are the tasks' own and no action's.
func (c *Consumer) countTasks(d *report.ShutdownReport) {
	for _, r := range d.Resources {
		if r.Kind != string(resources.Task) {
			continue
		}
		switch {
		case r.Panicked:
			d.Counts.Panics++
		case r.Error != nil:
			d.Counts.Errors++
		}
	}
}

func (c *Consumer) describeBroker(d *report.ShutdownReport) {
	for i, l := range c.links {
		if i == 0 {
			l.mu.Lock()
			info := l.info
			l.mu.Unlock()
			d.Broker = report.Broker{Kind: l.transport.Kind(), Product: info.Product, Version: info.Version, Node: info.Node,
				VHost: info.VHost, ConnectionName: info.ConnectionName, LocalAddr: info.LocalAddr}
		}
		d.Sessions = append(d.Sessions, l.report()...)
	}
}

func (c *Consumer) describeDeliveries(d *report.ShutdownReport, rec coordinator.Record) {
	var abandoned []slotKey
	var entries []int
	for _, sub := range c.subs {
		sub.lockAll()
		started, _ := sub.startedLocked()
		m := sub.trigger
		if m == nil {
			m = &mark{state: sub.state}
		}
		s := report.Subscription{
			Queue: sub.Queue, Prefetch: sub.Prefetch, Concurrency: sub.Concurrency, Drain: sub.Drain.String(), State: m.state.String(),
			SinceStart: sub.account.report(started), InShutdown: m.cohort(sub.account, started), AtTrigger: m.atTrigger(),
			HandlerUS: handlerTimes(sub.workers), RequeueCauses: sub.requeueCauses(), LoopJoined: sub.loopJoined(rec.Abandoned),
		}
		if st := sub.stream; st != nil && st.transport != nil {
			s.ConsumerTag = st.transport.ConsumerTag()
			if q := st.queue; q != nil {
				s.QueueAtEnd = &report.QueueAtEnd{Ready: q.Ready, Consumers: q.Consumers, TUS: q.At.Sub(rec.Start).Microseconds()}
			}
		}
		d.Deliveries.Proof.Window += sub.account.byWindow - m.sheet.byWindow
		d.Deliveries.Proof.Barrier += sub.account.byReply - m.sheet.byReply
		list := sub.unsettled.list()
		d.UnsettledOmitted += sub.unsettled.omitted
		slots := sub.slots()
		sub.unlockAll()
		d.Deliveries.InShutdown.Add(s.InShutdown)
		d.Deliveries.SinceStart.Add(s.SinceStart)
		d.Deliveries.AtTrigger.Add(s.AtTrigger)
		d.Subscriptions = append(d.Subscriptions, s)
		for _, e := range list {
			if slot, ok := slots[e.delivery]; ok && e.bucket == report.BucketAbandoned {
				abandoned = append(abandoned, slotKey{sub.Queue, slot})
				entries = append(entries, len(d.Unsettled))
			}
			d.Unsettled = append(d.Unsettled, e.report())
		}
	}
	if over := len(d.Unsettled) - maxUnsettled; over > 0 { // the cap holds over all subscriptions
		d.UnsettledOmitted += over
		d.Unsettled = d.Unsettled[over:]
		for i := range entries {
			entries[i] -= over
		}
	}
	if len(abandoned) == 0 {
		return
	}
	patience := stackPatience
	if root := c.coordinator.Root(); root != nil {
		patience = min(patience, root.Left()/2)
	}
	texts, index := assignStacks(c.stacks.wait(patience), abandoned)
	for i, at := range entries {
		if at >= 0 {
			d.Unsettled[at].Stack = index[i]
		}
	}
	d.Stacks = texts
}

// slots maps the deliveries that are still with a worker to its slot. All locks are held.
func (sub *subscription) slots() map[*Delivery]int {
	out := make(map[*Delivery]int)
	for _, w := range sub.workers {
		if w.current != nil {
			out[w.current] = w.slot
		}
	}
	return out
}

// loopJoined reports whether every worker has left, apart from those whose handler was abandoned; on abandon there is no apart.
// All locks are held.
func (sub *subscription) loopJoined(abandoned bool) bool {
	if closed(sub.empty) {
		return true
	}
	for _, w := range sub.workers {
		if !closed(w.left) && (abandoned || !w.abandoned) {
			return false
		}
	}
	return true
}

func (c *Consumer) describeFindings(d *report.ShutdownReport) {
	add := func(code string, subject, detail string, evidence ...string) {
		d.Findings = append(d.Findings, report.NewFinding(code, subject, detail, evidence...))
	}
	if c.planned > 0 {
		add(report.CodePlatformGraceShort, c.cfg.Service.Name, "asked for "+c.planned.String()+", planned "+c.budget.Total().String(), "config.platform_grace_us")
	}
	if n := c.logs.Dropped(); n > 0 {
		add(report.CodeLogLinesDropped, c.cfg.Service.Name, "")
	}
	for i, sub := range c.subs {
		sub.mu.Lock()
		zero, panics, first := sub.account.noOutcome, sub.account.panics, sub.panicked
		sub.mu.Unlock()
		if zero > 0 {
			add(report.CodeHandlerNoOutcome, sub.Queue, "", indexPath("subscriptions", i))
		}
		if first != nil {
			d.Stacks = append(d.Stacks, string(first.Stack))
			add(report.CodeHandlerPanicked, sub.Queue, fmt.Sprintf("%d, the first %s", panics, report.NewError(first).Text), indexPath("stacks", len(d.Stacks)-1))
		}
	}
	for _, l := range c.links {
		if left, ok := l.transport.(transport.Volatile); ok {
			for _, queue := range slices.Sorted(maps.Keys(left.Remaining())) {
				add(report.CodeMemoryBrokerLeft, queue, "")
			}
		}
	}
}

// Version is Lastcall's own version as the build recorded it, "(devel)" for a build from a work tree.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	if info.Main.Path == modulePath {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			return m.Version
		}
	}
	return "(unknown)"
}

const modulePath = "github.com/lastcall-go/lastcall"

// publish stores the sealed report. A disk that is not back in time is left behind, and the report goes out as one line.
func (c *Consumer) publish(ctx context.Context) {
	s := c.sealed.Load()
	if s == nil {
		return
	}
	c.log.Info("shutdown", "completion", string(s.report.Completion), "exit_code", s.report.ExitCode, "exit_reason", string(s.report.ExitReason),
		"report_id", s.report.ReportID)
	if c.store != nil {
		c.save(ctx, s)
	}
	_ = c.logs.Flush(ctx)
	c.logs.Close()
}

func (c *Consumer) save(ctx context.Context, s *sealed) {
	saved := make(chan error, 1)
	go func() { // ends when the disk answers; nobody waits for it beyond its share
		var err error
		if !c.prepared.Load() { // the start did not get that far
			err = c.store.Prepare()
		}
		if err == nil {
			var path string
			if path, err = c.store.Save(&s.report, s.json); err == nil {
				c.log.Info("report stored", "path", path)
			}
		}
		saved <- err
	}()
	patience := deadline.NewTimer(storeShare(ctx))
	defer patience.Stop()
	var err error
	select {
	case err = <-saved:
	case <-patience.C:
		err = errStoreSlow
	}
	if err == nil {
		return
	}
	c.log.Error("the report could not be stored", "dir", c.store.Dir, "error", report.NewError(err).Text)
	line, lineErr := report.Line(&s.report)
	if lineErr != nil {
		return
	}
	written := make(chan struct{})
	// Ends when the pipe takes the line; nobody waits for it beyond hard.
	resources.Call(func() error { _, err := c.fallback().Write(line); return err }, func(resources.Returned) { close(written) })
	select {
	case <-written:
	case <-ctx.Done():
	}
}

// storeShare leaves a quarter of what is left for the line that replaces a report that could not be stored.
func storeShare(ctx context.Context) time.Duration {
	at, ok := ctx.Deadline()
	if !ok {
		return deadline.DefaultCloserLimit
	}
	return max(deadline.Until(at), 0) / 4 * 3
}

var errStoreSlow = errors.New("lastcall: the disk did not answer within its share of the deadline")

// fallback is where the report goes when it cannot be stored.
func (c *Consumer) fallback() io.Writer {
	if c.cfg.Report.Fallback != nil {
		return c.cfg.Report.Fallback
	}
	return os.Stderr
}

func indexPath(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }
