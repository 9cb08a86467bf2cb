package faultproxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an echo server behind a proxy, and one client connection through it.
func bench(t *testing.T) (*faultproxy.Proxy, *net.TCPConn) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	p, err := faultproxy.New(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		_ = server.Close()
		<-served
	})
	return p, dial(t, p)
}

func dial(t *testing.T, p *faultproxy.Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// echo sends text and wants it back.
func echo(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want(t, c, text)
}

func want(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v; want %q", got, err, text)
	}
}

// silence wants nothing to arrive for a while.
func silence(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func TestPassesBothWays(t *testing.T) {
	p, c := bench(t)
	echo(t, c, "hello")
	if n := p.Open(); n != 1 {
		t.Errorf("%d connections open, want 1", n)
	}
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after our end of file: %v, want EOF", err)
	}
}

func TestDiscardLosesTheBytes(t *testing.T) {
	for _, d := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		p, c := bench(t)
		echo(t, c, "before")
		p.Set(d, faultproxy.Discard)
		_, _ = c.Write([]byte("lost"))
		silence(t, c)
		p.Set(d, faultproxy.Pass)
		echo(t, c, "after")
	}
}

func TestStallKeepsTheBytes(t *testing.T) {
	for _, d := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		p, c := bench(t)
		echo(t, c, "before")
		p.Set(d, faultproxy.Stall)
		_, _ = c.Write([]byte("late"))
		silence(t, c)
		p.Set(d, faultproxy.Pass)
		want(t, c, "late")
	}
}

func TestStallFillsTheWindow(t *testing.T) {
	p, c := bench(t)
	p.Set(faultproxy.ToServer, faultproxy.Stall)
	_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := c.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d bytes, %v; want a full window", n, err)
	}
}

func TestResetAndFinish(t *testing.T) {
	p, c := bench(t)
	echo(t, c, "before")
	p.ResetAll()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	c = dial(t, p)
	echo(t, c, "before")
	p.FinishAll(faultproxy.ToClient)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after a finish: %v", err)
	}
}

func TestSilentAcceptsAndIgnores(t *testing.T) {
	p, _ := bench(t)
	p.Silent(true)
	c := dial(t, p)
	_, _ = c.Write([]byte("anybody?"))
	silence(t, c)
	p.Silent(false)
	echo(t, dial(t, p), "hello")
}

func TestLatencyHoldsBackAndKeepsOrder(t *testing.T) {
	p, c := bench(t)
	p.SetLatency(faultproxy.ToClient, 100*time.Millisecond)
	began := time.Now()
	for i := range byte(10) {
		_, _ = c.Write([]byte{'0' + i})
		time.Sleep(time.Millisecond)
	}
	want(t, c, "0123456789")
	if took := time.Since(began); took < 100*time.Millisecond || took > 2*time.Second {
		t.Errorf("ten bytes 1 ms apart took %s through 100 ms: held back one after the other, or not at all", took)
	}
}

func TestRateSlows(t *testing.T) {
	p, c := bench(t)
	p.SetRate(faultproxy.ToServer, 10_000)
	began := time.Now()
	echo(t, c, string(bytes.Repeat([]byte("x"), 1000)))
	if took := time.Since(began); took < 90*time.Millisecond {
		t.Errorf("1000 bytes at 10,000 a second took %s", took)
	}
}

func TestWhenFiresOnceBeforePassing(t *testing.T) {
	p, c := bench(t)
	var fired atomic.Int32
	p.When(faultproxy.ToServer, []byte("now"), func() {
		fired.Add(1)
		p.Set(faultproxy.ToServer, faultproxy.Discard)
	})
	echo(t, c, "not yet")
	_, _ = c.Write([]byte("and now!"))
	silence(t, c)
	p.Set(faultproxy.ToServer, faultproxy.Pass)
	echo(t, c, "now again")
	if n := fired.Load(); n != 1 {
		t.Errorf("fired %d times, want 1", n)
	}
}

func TestInject(t *testing.T) {
	p, c := bench(t)
	echo(t, c, "before")
	p.Set(faultproxy.ToClient, faultproxy.Discard)
	p.Inject(c.LocalAddr().String(), faultproxy.ToClient, []byte("made up"))
	want(t, c, "made up")
}

func TestResetOfOne(t *testing.T) {
	p, c := bench(t)
	other := dial(t, p)
	echo(t, c, "hello")
	echo(t, other, "hello")
	p.Reset(c.LocalAddr().String())
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	echo(t, other, "still there")
}
