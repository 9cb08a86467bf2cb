package signals

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// childEnv makes the test binary a process that prints what its Target is told. Each line on its stdin puts a new Monitor in
// the place of the last; at the end of stdin it stops to catch signals.
const childEnv = "LASTCALL_SIGNALS_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

func child() {
	if os.Getenv(childEnv) == "pipes" {
		childOutlivingPipes()
		return
	}
	ch, stop := Notify()
	for lines := bufio.NewScanner(os.Stdin); ; {
		m, err := New(Config{Signals: ch, Now: time.Now, Target: &record{
			start: time.Now(), onCall: func(call string) { fmt.Println(call) },
		}})
		if err != nil {
			panic(err)
		}
		m.Start()
		fmt.Println("ready")
		more := lines.Scan()
		m.Stop()
		<-m.Joined()
		if !more {
			break
		}
	}
	stop()
	fmt.Println("stopped")
	select {} // the next signal has its default effect
}

// childOutlivingPipes writes to a stdout that nobody reads until that fails, and says on stderr what became of a child of its
// own in the same place.
func childOutlivingPipes() {
	OutlivePipes()
	for {
		if _, err := os.Stdout.WriteString("into the pipe\n"); err != nil {
			break
		}
	}
	yes := exec.Command("yes")
	yes.Stdout = os.Stdout
	fmt.Fprintln(os.Stderr, "alive;", yes.Run())
}

// process is a running child.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startProcess(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() }) // whoever waits for it sees that it was killed
	t.Cleanup(func() {
		hung.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	p := &process{t, cmd, stdin, bufio.NewScanner(stdout)}
	p.await("ready")
	return p
}

// again gives the child a new Monitor.
func (p *process) again() {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		p.t.Fatal(err)
	}
	p.await("ready")
}

func (p *process) send(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// await reads one line, and returns the instant at its head if it has one.
func (p *process) await(want string) time.Duration {
	p.t.Helper()
	at, got := p.read()
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Fatalf("line (-want +got):\n%s", diff)
	}
	return at
}

func (p *process) read() (at time.Duration, call string) {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the child ended (error %v)", p.lines.Err())
	}
	line := p.lines.Text()
	head, rest, _ := strings.Cut(line, " ")
	if at, err := time.ParseDuration(head); err == nil {
		return at, rest
	}
	return 0, line
}

// TestTwoSignalsInQuickSuccession: both are recorded. The second is sent 15 ms after the first, and not before that one was
// taken: what the kernel merges, nobody can record. On a busy machine it may be taken so late that it is no duplicate.
func TestTwoSignalsInQuickSuccession(t *testing.T) {
	p := startProcess(t)
	for range 50 {
		gap := time.NewTimer(15 * time.Millisecond)
		p.send(term)
		first := p.await("graceful terminated")
		<-gap.C
		p.send(term)
		second, got := p.read()
		want := "observed duplicate terminated"
		if second-first >= duplicateWindow {
			want = "force terminated"
		}
		if got != want {
			t.Fatalf("%v after the first: %q, want %q", second-first, got, want)
		}
		p.again()
	}
}

func TestRealSignalsUntilStop(t *testing.T) {
	p := startProcess(t)
	for _, step := range []struct {
		sig  os.Signal
		want string
	}{{intr, "graceful interrupt"}, {quit, "force quit"}, {term, "abandon terminated"}} {
		p.send(step.sig)
		p.await(step.want)
	}

	p.stdin.Close()
	p.await("stopped")
	p.send(term)
	err := p.cmd.Wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("after stop SIGTERM ends the child with %v, want its default effect", err)
	}
}

// TestABrokenPipeIsAnError of the write, in this process alone: what it starts still ends by SIGPIPE.
func TestABrokenPipeIsAnError(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=pipes")
	cmd.Stdout, cmd.Stderr = w, &said
	err = cmd.Run()
	w.Close()
	if diff := cmp.Diff("alive; signal: broken pipe\n", said.String()); err != nil || diff != "" {
		t.Errorf("the child ended with %v and said (-want +got):\n%s", err, diff)
	}
}
