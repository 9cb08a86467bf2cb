//go:build unix

package managed

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

const execSupported = true

const (
	// outputGrace is how long the output of a child that has exited is still read if a process it left behind holds the pipe.
	outputGrace = 100 * time.Millisecond
	// killRecheck is how often the instant of SIGKILL is asked for again: it comes nearer if a stop is forced meanwhile.
	killRecheck = 20 * time.Millisecond
)

// child is one child process, which leads a process group of its own.
//
//	start --> body, output ------------------------> exited (a zombie) --> reaped
//	             |                                       |
//	             +-- context ends: SIGTERM --> SIGKILL --+
//
// As long as the leader is not reaped its group's number cannot become anybody else's. No signal goes out after that.
type child struct {
	cfg    ExecConfig
	body   []byte
	env    []string
	killAt func(cause error) time.Time
	// revoked closes when the delivery is given up: nothing that the child does counts any more. Nil means never.
	revoked <-chan struct{}
	log     *slog.Logger
}

// run starts the child and returns once it is reaped. Everything it starts has ended then, except processes that the child
// left behind when it ended by itself.
func (c *child) run(ctx context.Context) childEnd {
	if ctx.Err() != nil {
		return childEnd{notice: context.Cause(ctx), unborn: true}
	}
	pipes, err := openPipes()
	if err != nil {
		return childEnd{err: err}
	}
	defer pipes.close()
	cmd := exec.Command(c.cfg.Command[0], c.cfg.Command[1:]...)
	cmd.Dir, cmd.Env = c.cfg.Dir, c.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.stdin.r, pipes.stdout.w, pipes.stderr.w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return childEnd{err: err}
	}
	pipes.started()

	var streams sync.WaitGroup
	streams.Go(func() { c.feed(pipes.stdin.w) })
	out := &output{log: c.log, left: maxOutputDelivery}
	streams.Go(func() { (&outputStream{out: out, name: "stdout", level: slog.LevelInfo}).copy(pipes.stdout.r) })
	streams.Go(func() { (&outputStream{out: out, name: "stderr", level: slog.LevelWarn}).copy(pipes.stderr.r) })

	e := &ending{group: -cmd.Process.Pid, killAt: c.killAt, revoked: c.revoked, exited: make(chan struct{}), done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { e.run(context.Cause(ctx)) })
	e.reaped = awaitExit(cmd)
	close(e.exited)
	if !stop() {
		<-e.done
	}

	pipes.expire(deadline.Now().Add(outputGrace))
	streams.Wait()
	out.close()
	if !e.reaped {
		err = cmd.Wait()
	}
	end := childEnd{notice: e.notice}
	if cmd.ProcessState == nil { // nothing is known of its end
		end.err = err
		return end
	}
	switch status := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case status.Signaled():
		end.signal = status.Signal()
	default:
		end.code = status.ExitStatus()
	}
	return end
}

// feed writes the body. A child that does not read it, or not to the end, is its own affair.
func (c *child) feed(w *os.File) {
	_, _ = w.Write(c.body)
	_ = w.Close()
}

// ending ends a child's group when the handler's context has ended. Its goroutine is owned by the child's run, which waits
// for done.
type ending struct {
	group   int // negative, as kill(2) wants it
	killAt  func(cause error) time.Time
	revoked <-chan struct{}
	exited  chan struct{}
	reaped  bool // valid once exited is closed
	done    chan struct{}
	notice  error // valid once done is closed: why SIGTERM was sent, nil if it was not
}

func (e *ending) run(cause error) {
	defer close(e.done)
	if e.over() { // by itself: the notice came too late
		return
	}
	e.notice = cause
	_ = syscall.Kill(e.group, syscall.SIGTERM)
	e.await(cause)
	if !e.over() || !e.reaped {
		_ = syscall.Kill(e.group, syscall.SIGKILL)
	}
}

func (e *ending) over() bool {
	select {
	case <-e.exited:
		return true
	default:
		return false
	}
}

// await returns when the leader has exited, or must.
func (e *ending) await(cause error) {
	at := e.killAt(cause)
	for {
		left := deadline.Until(at)
		if left <= 0 {
			return
		}
		t := deadline.NewTimer(min(left, killRecheck))
		select {
		case <-e.exited:
			t.Stop()
			return
		case <-e.revoked: // the process may end at once, and must not leave the child behind
			t.Stop()
			return
		case <-t.C:
		}
		at = deadline.Earlier(at, e.killAt(cause))
	}
}

// pipe is a pair of ends; the child has one of them.
type pipe struct{ r, w *os.File }

func (p *pipe) close() {
	for _, end := range []*os.File{p.r, p.w} {
		if end != nil {
			_ = end.Close()
		}
	}
}

// pipes are the child's three streams.
type pipes struct{ stdin, stdout, stderr pipe }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, one := range []*pipe{&p.stdin, &p.stdout, &p.stderr} {
		var err error
		if one.r, one.w, err = os.Pipe(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// started closes the child's ends, so that ours see its end.
func (p *pipes) started() {
	_ = p.stdin.r.Close()
	_ = p.stdout.w.Close()
	_ = p.stderr.w.Close()
}

// expire ends what is still being written at once and what is still being read at the given instant.
func (p *pipes) expire(at time.Time) {
	_ = p.stdin.w.Close()
	_ = p.stdout.r.SetReadDeadline(at)
	_ = p.stderr.r.SetReadDeadline(at)
}

func (p *pipes) close() {
	p.stdin.close()
	p.stdout.close()
	p.stderr.close()
}
