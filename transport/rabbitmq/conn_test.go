package rabbitmq

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/transport"
)

// wire is a socket that records each write.
type wire struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
	err    error // what the next write returns
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.writes = append(w.writes, slices.Clone(p))
	return len(p), nil
}

func (w *wire) Read([]byte) (int, error) { return 0, w.err }
func (w *wire) Close() error             { return nil }

func frameOf(channel uint16, m method, size int) []byte {
	b := []byte{frameMethod, byte(channel >> 8), byte(channel), 0, 0, byte(size >> 8), byte(size)}
	b = append(b, byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
	return append(append(b, make([]byte, size-4)...), frameEnd)
}

// amqp091 writes through a buffer of 4 KiB and so in pieces, anywhere. Nothing of ours ever lands within a frame of its, and
// nothing is lost or changed.
func TestFramesAreNeverTorn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &wire{}
		c := newConn(w, w)
		if _, err := c.Write(frameOf(1, channelOpen, 5)); err != nil {
			t.Fatal(err)
		}
		w.writes = nil
		l := c.lastOpened()
		var theirs, ours, stream []byte
		for i := range rapid.IntRange(1, 8).Draw(t, "frames") {
			stream = append(stream, frameOf(1, method(10<<16|i), rapid.IntRange(4, 9000).Draw(t, "size"))...)
		}
		theirs = slices.Clone(stream)
		for tag := uint64(1); len(stream) > 0; tag++ {
			n := rapid.IntRange(1, len(stream)).Draw(t, "piece")
			if _, err := c.Write(stream[:n]); err != nil {
				t.Fatal(err)
			}
			stream = stream[n:]
			settlement := appendSettlement(nil, 1, transport.Ack, tag, false)
			ours = append(ours, settlement...)
			if err := c.writeFrames(l, settlement); err != nil {
				t.Fatal(err)
			}
		}
		var gotTheirs, gotOurs []byte
		for b := slices.Concat(w.writes...); len(b) > 0; {
			f, size := nextFrame(b)
			if size == 0 || b[size-1] != frameEnd {
				t.Fatalf("a torn frame, %d bytes before the end", len(b))
			}
			if f.method == basicAck {
				gotOurs = append(gotOurs, b[:size]...)
			} else {
				gotTheirs = append(gotTheirs, b[:size]...)
			}
			b = b[size:]
		}
		if !slices.Equal(theirs, gotTheirs) || !slices.Equal(ours, gotOurs) {
			t.Fatal("what was written is not what arrived")
		}
	})
}

// A frame for a channel that has been closed kills the connection (504): from the close, or the answer to the peer's, on the
// channel takes none, also when its number is used again.
func TestNoSettlementFollowsTheCloseOfItsChannel(t *testing.T) {
	for _, last := range []method{channelClose, channelCloseOK} {
		w := &wire{}
		c := newConn(w, w)
		write := func(m method) {
			if _, err := c.Write(frameOf(4, m, 11)); err != nil {
				t.Fatal(err)
			}
		}
		write(channelOpen)
		old := c.lastOpened()
		ack := appendSettlement(nil, 4, transport.Ack, 1, false)
		if err := c.writeFrames(old, ack); err != nil {
			t.Fatal(err)
		}
		write(last)
		if err := c.writeFrames(old, ack); !errors.Is(err, errChannelShut) {
			t.Errorf("after %d: %v", last&0xFFFF, err)
		}
		write(channelOpen)
		if err := c.writeFrames(old, ack); !errors.Is(err, errChannelShut) {
			t.Errorf("after %d and an open: %v", last&0xFFFF, err)
		}
		if err := c.writeFrames(c.lastOpened(), ack); err != nil {
			t.Errorf("the new channel: %v", err)
		}
	}
}

func TestFramesAreSeenWhenTheyHaveLeft(t *testing.T) {
	w := &wire{}
	c := newConn(w, w)
	_, _ = c.Write(frameOf(2, channelOpen, 5))
	l := c.lastOpened()
	cancel := frameOf(2, basicCancel, 30)
	_, _ = c.Write(cancel[:20])
	if isClosed(l.cancelWritten) {
		t.Error("half a cancel counts as written")
	}
	_, _ = c.Write(cancel[20:])
	if !isClosed(l.cancelWritten) {
		t.Error("a written cancel was not seen")
	}
	w.err = syscall.EPIPE
	_, _ = c.Write(frameOf(2, channelClose, 11))
	if isClosed(l.closeWritten) {
		t.Error("a close that could not be written counts as written")
	}
	if isClosed(l.closeOKWritten) {
		t.Error("an answer that nobody wrote was seen")
	}
}

func TestEndsOfASocketAreToldApart(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, c := range map[string]struct {
		err  error
		want transport.EndKind
	}{
		"end of file":       {io.EOF, transport.EndPeerReset},
		"half a frame":      {io.ErrUnexpectedEOF, transport.EndPeerReset},
		"reset":             {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, transport.EndPeerReset},
		"broken pipe":       {&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, transport.EndPeerReset},
		"missed heartbeats": {timeout, transport.EndSilent},
		"no route":          {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.EHOSTUNREACH)}, transport.EndSilent},
		"not understood":    {errors.New("tls: bad record"), transport.EndProtocol},
	} {
		w := &wire{err: c.err}
		conn := newConn(w, w)
		_, _ = conn.Read(make([]byte, 1))
		conn.cut() // changes nothing any more
		if b := conn.broken.Load(); b == nil || b.kind != c.want || !errors.Is(b.err, c.err) {
			t.Errorf("%s: %+v, want %s", name, b, c.want)
		}
	}
	w := &wire{err: fmt.Errorf("closed here: %w", net.ErrClosed)}
	conn := newConn(w, w)
	conn.cut()
	_, _ = conn.Read(make([]byte, 1))
	if diff := cmp.Diff(transport.EndCut, conn.broken.Load().kind); diff != "" {
		t.Errorf("after a cut (-want +got):\n%s", diff)
	}
}
