package logq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

var errGaveUp = errors.New("gave up")

// sink is the next handler's writer: it keeps lines, and blocks while its gate is shut.
type sink struct {
	mu    sync.Mutex
	gate  chan struct{} // nil: open
	lines []string
}

func (s *sink) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

func (s *sink) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
	s.gate = nil
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, strings.TrimSpace(string(b)))
	return len(b), nil
}

func (s *sink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// plain writes level, message and attributes, without the time.
func plain(w io.Writer) slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}})
}

func flush(t *testing.T, q *Queue) {
	t.Helper()
	if err := q.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestHandlerKeepsTheContract(t *testing.T) {
	var out bytes.Buffer
	q := New(slog.NewJSONHandler(&out, nil), 0)
	err := slogtest.TestHandler(q.Handler(), func() []map[string]any {
		flush(t, q)
		var lines []map[string]any
		for dec := json.NewDecoder(&out); ; {
			var line map[string]any
			if err := dec.Decode(&line); errors.Is(err, io.EOF) {
				return lines
			} else if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLinesKeepTheirOrderAttributesAndGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		q := New(plain(out), 8)
		log := slog.New(q.Handler())
		session := log.With("session", 1)

		log.Debug("not enabled")
		log.Info("dialled")
		session.WithGroup("queue").Warn("blocked", "name", "orders")
		session.Error("lost")
		synctest.Wait()

		want := []string{
			`level=INFO msg=dialled`,
			`level=WARN msg=blocked session=1 queue.name=orders`,
			`level=ERROR msg=lost session=1`,
		}
		if diff := cmp.Diff(want, out.all()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// TestRecordsAreCloned: whoever logs may go on with its record, and so may the next handler, at another time.
func TestRecordsAreCloned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		to := plain(out)
		q := New(keep(func(ctx context.Context, r slog.Record) error {
			r.AddAttrs(slog.String("by", "next"))
			return to.Handle(ctx, r)
		}), 8)
		r := slog.NewRecord(time.Time{}, slog.LevelInfo, "reused", 0)
		for i := range 8 { // more than a record holds in place, and with room behind them that copies share
			r.AddAttrs(slog.Int("n", i))
		}
		if err := q.Handler().Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.AddAttrs(slog.String("by", "logger"))
		synctest.Wait()

		want := []string{`level=INFO msg=reused n=0 n=1 n=2 n=3 n=4 n=5 n=6 n=7 by=next`}
		if diff := cmp.Diff(want, out.all()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// keep is a next handler made of one func.
type keep func(context.Context, slog.Record) error

func (keep) Enabled(context.Context, slog.Level) bool          { return true }
func (k keep) Handle(ctx context.Context, r slog.Record) error { return k(ctx, r) }
func (k keep) WithAttrs([]slog.Attr) slog.Handler              { return k }
func (k keep) WithGroup(string) slog.Handler                   { return k }

func TestNextSeesTheValuesOfAContextThatHasEnded(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := New(keep(func(ctx context.Context, _ slog.Record) error {
			<-hold
			if ctx.Value(key{}) != "trace" || ctx.Err() != nil {
				t.Errorf("value %v, error %v; want the value and no error", ctx.Value(key{}), ctx.Err())
			}
			return nil
		}), 8)
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "trace"))
		slog.New(q.Handler()).InfoContext(ctx, "line")
		cancel(errGaveUp)
		close(hold)
		flush(t, q)
	})
}

func TestFullQueueDropsCountsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		q := New(plain(out), 3)
		log := slog.New(q.Handler()).With("by", "test").WithGroup("g")
		out.shut()
		for i := range 3 {
			log.Info("kept", "n", i)
		}
		synctest.Wait() // the first is being written and still counts
		log.Info("dropped")
		log.Error("dropped")
		log.Warn("dropped")
		if got := q.Dropped(); got != 3 {
			t.Errorf("dropped %d lines, want 3", got)
		}
		if got := out.all(); len(got) > 0 {
			t.Errorf("lines behind a shut gate: %q", got)
		}

		out.open()
		flush(t, q)
		log.Info("kept", "n", 3)
		synctest.Wait()

		want := []string{
			`level=INFO msg=kept by=test g.n=0`,
			`level=INFO msg=kept by=test g.n=1`,
			`level=INFO msg=kept by=test g.n=2`,
			`level=ERROR msg="log lines dropped" count=3`,
			`level=INFO msg=kept by=test g.n=3`,
		}
		if diff := cmp.Diff(want, out.all()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// TestTheGapStandsWhereTheLinesAreMissing: not at the end of what has been queued since.
func TestTheGapStandsWhereTheLinesAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		var lines []string
		q := New(keep(func(_ context.Context, r slog.Record) error {
			<-step
			line := fmt.Sprintf("%v %s", r.Level, r.Message)
			r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
			lines = append(lines, line)
			return nil
		}), 2)
		log := slog.New(q.Handler())
		log.Info("a")
		log.Info("b")
		log.Debug("dropped")
		step <- struct{}{} // a
		synctest.Wait()
		log.Info("c")
		log.Info("dropped")
		log.Info("dropped")
		close(step)
		flush(t, q)

		want := []string{"INFO a", "INFO b", "DEBUG log lines dropped count=1", "INFO c", "INFO log lines dropped count=2"}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		q := New(plain(out), 8)
		log := slog.New(q.Handler())
		flush(t, q) // nothing to wait for

		out.shut()
		log.Info("a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGaveUp)
		defer cancel()
		began := time.Now()
		if err := q.Flush(ctx); !errors.Is(err, errGaveUp) || time.Since(began) != time.Second {
			t.Errorf("behind a hung writer Flush returns %v after %v, want the cause after 1s", err, time.Since(began))
		}

		// What is logged after the call does not keep it waiting.
		flushed := make(chan error)
		go func() { flushed <- q.Flush(t.Context()) }()
		synctest.Wait()
		out.open()
		out.shut()
		log.Info("b")
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"level=INFO msg=a"}, out.all()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		out.open()
		flush(t, q)
		if err := q.Flush(ctx); err != nil {
			t.Errorf("nothing is left to flush, and yet: %v", err)
		}
	})
}

// TestFlushDoesNotWaitForLaterLines that follow a gap: it is over when the gap has been told of.
func TestFlushDoesNotWaitForLaterLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		var last string
		q := New(keep(func(_ context.Context, r slog.Record) error {
			<-step
			last = r.Message
			return nil
		}), 1)
		log := slog.New(q.Handler())
		log.Info("a")
		log.Info("dropped")
		flushed := make(chan error, 1)
		go func() { flushed <- q.Flush(t.Context()) }()
		synctest.Wait()

		step <- struct{}{} // a
		synctest.Wait()
		log.Info("b")
		select {
		case err := <-flushed:
			t.Errorf("Flush = %v before the gap was told of", err)
		default:
		}
		step <- struct{}{} // the gap
		if err := <-flushed; err != nil || last != "log lines dropped" {
			t.Errorf("Flush = %v after %q", err, last)
		}
		close(step)
	})
}

func TestCloseWritesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		q := New(plain(out), 8)
		log := slog.New(q.Handler())
		out.shut()
		log.Info("a")
		log.Info("b")
		q.Close()
		q.Close()
		log.Info("late")
		select {
		case <-q.Joined():
			t.Error("joined while it writes")
		default:
		}
		out.open()
		<-q.Joined()
		log.Info("later")
		flush(t, q)

		want := []string{"level=INFO msg=a", "level=INFO msg=b", `level=INFO msg="log lines dropped" count=1`}
		if diff := cmp.Diff(want, out.all()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if got := q.Dropped(); got != 2 {
			t.Errorf("dropped %d lines, want the 2 that came after Close", got)
		}
	})
}

func TestCloseAtRestJoinsAtOnce(t *testing.T) {
	q := New(plain(io.Discard), 8)
	q.Close()
	q.Close()
	select {
	case <-q.Joined():
	default:
		t.Error("a closed queue without a line has not joined")
	}
}

// TestAHandlerThatMisbehavesLosesItsOwnLine, and no other.
func TestAHandlerThatMisbehavesLosesItsOwnLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		q := New(keep(func(_ context.Context, r slog.Record) error {
			switch r.Message {
			case "error":
				return errGaveUp
			case "panic":
				panic(errGaveUp)
			case "goexit":
				runtime.Goexit()
			}
			lines = append(lines, r.Message)
			return nil
		}), 8)
		log := slog.New(q.Handler())
		for _, message := range []string{"a", "error", "b", "panic", "c", "goexit", "d"} {
			log.Info(message)
		}
		flush(t, q)
		q.Close()
		<-q.Joined()
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, lines); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if q.Failed() != 3 || q.Dropped() != 0 {
			t.Errorf("failed %d, dropped %d; want 3 and 0", q.Failed(), q.Dropped())
		}
	})
}

// TestAGapThatCannotBeToldIsNotTriedAgain: a handler that leaves its goroutine over it gets the next line.
func TestAGapThatCannotBeToldIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		var lines []string
		q := New(keep(func(_ context.Context, r slog.Record) error {
			<-step
			lines = append(lines, r.Message)
			if r.Message == "log lines dropped" {
				runtime.Goexit()
			}
			return nil
		}), 2)
		log := slog.New(q.Handler())
		for _, message := range []string{"a", "b", "dropped"} {
			log.Info(message)
		}
		step <- struct{}{} // a
		synctest.Wait()
		log.Info("c")
		for range 3 {
			step <- struct{}{}
		}
		flush(t, q)
		if diff := cmp.Diff([]string{"a", "b", "log lines dropped", "c"}, lines); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// TestLoggingIntoAFullPipe: write(2) hangs, logging does not, and the goroutine ends once the pipe breaks.
func TestLoggingIntoAFullPipe(t *testing.T) {
	defer goleak.VerifyNone(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const size = 16
	q := New(slog.NewTextHandler(w, nil), size)
	log := slog.New(q.Handler())
	for text := strings.Repeat("x", 4096); q.Dropped() == 0; {
		log.Info(text)
	}
	q.Close()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errGaveUp)
	if err := q.Flush(ended); !errors.Is(err, errGaveUp) {
		t.Errorf("Flush = %v, want the cause of its context", err)
	}
	r.Close()
	<-q.Joined()
	w.Close()
	if q.Failed() == 0 {
		t.Error("no line failed although the pipe broke")
	}
}

// TestConcurrentLinesAreAllAccountedFor: each goroutine's lines come in its order, and what is missing is what was dropped.
func TestConcurrentLinesAreAllAccountedFor(t *testing.T) {
	defer goleak.VerifyNone(t)
	const writers, each = 8, 500
	var (
		seen [writers]int
		told uint64
	)
	q := New(keep(func(_ context.Context, r slog.Record) error {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "count" {
				told += a.Value.Uint64()
				return true
			}
			by, n := a.Value.Int64()/each, a.Value.Int64()%each
			if int(n) < seen[by] {
				t.Errorf("writer %d: line %d comes after line %d", by, n, seen[by]-1)
			}
			seen[by] = int(n) + 1
			return true
		})
		return nil
	}), 32)
	log := slog.New(q.Handler())
	var group sync.WaitGroup
	for by := range writers {
		group.Go(func() {
			for n := range each {
				log.Info("line", "id", by*each+n)
			}
		})
	}
	group.Wait()
	flush(t, q)
	q.Close()
	<-q.Joined()
	if told != q.Dropped() {
		t.Errorf("the log tells of %d dropped lines, the counter of %d", told, q.Dropped())
	}
}

// TestAnyInterleaving: whatever the sizes and the pace of the writer, the log is the lines in order with each gap counted.
func TestAnyInterleaving(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(rt, "size")
		writes := rapid.SliceOfN(rapid.Bool(), 1, 30).Draw(rt, "writes")
		synctest.Test(t, func(t *testing.T) {
			step := make(chan struct{})
			next := uint64(0) // the line that the log should come to next
			q := New(keep(func(_ context.Context, r slog.Record) error {
				<-step
				r.Attrs(func(a slog.Attr) bool {
					switch n := a.Value.Resolve().Any().(type) {
					case uint64:
						next += n
					case int64:
						if uint64(n) != next {
							t.Errorf("line %d, want %d", n, next)
						}
						next++
					}
					return true
				})
				return nil
			}), size)
			log := slog.New(q.Handler())
			logged := 0
			for _, write := range writes {
				if write {
					select {
					case step <- struct{}{}:
					default: // nothing is being written
					}
				} else {
					log.Info("line", "n", logged)
					logged++
				}
				synctest.Wait()
			}
			close(step)
			flush(t, q)
			if next != uint64(logged) {
				t.Errorf("the log accounts for %d lines of %d", next, logged)
			}
		})
	})
}

func TestNegativeSizePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New with a negative size returned")
		}
	}()
	New(plain(io.Discard), -1)
}

func BenchmarkLog(b *testing.B) {
	for name, next := range map[string]slog.Handler{
		"discard": slog.NewTextHandler(io.Discard, nil),
		"blocked": keep(func(context.Context, slog.Record) error { select {} }),
	} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(New(next, 0).Handler())
			b.ReportAllocs()
			for b.Loop() {
				log.Info("settled", "queue", "orders", "count", 64)
			}
		})
	}
}
