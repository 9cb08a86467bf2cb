package rabbitmq

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// conn is the socket of a session as amqp091 sees it: a reader, a writer and a read deadline, with TLS already done. It is
// deliberately no net.Conn: amqp091 would clear the deadline that its own heartbeats have set.
//
// Two write to it: amqp091, whose frames may come in several pieces, and the streams' writers. Only whole frames go on to the
// socket, so neither can tear the other's.
type conn struct {
	in     *inbound
	out    io.Writer // the socket, or TLS on it
	socket net.Conn
	broken atomic.Pointer[breakage]

	// turn is the order of frames on the wire and so is held across the write. Whoever must not wait, cut above all, closes the
	// socket without it, which ends the write.
	turn    sync.Mutex
	partial []byte // of a frame of amqp091's
	lanes   map[uint16]*lane
	opened  *lane
}

// lane is one channel as seen on its way out, from its channel.open on.
type lane struct {
	channel uint16
	shut    bool // guarded by conn.turn: the channel has been closed, what follows would kill the connection

	// Each is closed when its frame has left.
	cancelWritten  chan struct{}
	closeWritten   chan struct{} // our channel.close
	closeOKWritten chan struct{} // our answer to the peer's
}

// breakage is the first thing that ended the socket.
type breakage struct {
	kind transport.EndKind
	err  error
	at   time.Time
}

var (
	errCut         = errors.New("the connection was cut")
	errChannelShut = errors.New("the channel has been closed")
)

func newConn(socket net.Conn, plain io.ReadWriter) *conn {
	return &conn{socket: socket, in: newInbound(plain), out: plain, lanes: make(map[uint16]*lane)}
}

// Read is amqp091's.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil {
		c.lost(err)
	}
	return n, err
}

// SetReadDeadline is amqp091's: one and a half heartbeats after each frame.
func (c *conn) SetReadDeadline(t time.Time) error { return c.socket.SetReadDeadline(t) }

// Close is amqp091's, when it is done with the socket for whatever reason; the reason is not ours.
func (c *conn) Close() error { return c.socket.Close() }

// Write is amqp091's, one call at a time. It keeps back what is not a whole frame yet.
func (c *conn) Write(p []byte) (int, error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	out := p
	if len(c.partial) > 0 {
		c.partial = append(c.partial, p...)
		out = c.partial
	}
	whole := 0
	for {
		f, size := nextFrame(out[whole:])
		if size == 0 {
			break
		}
		whole += size
		c.leaving(f)
	}
	if whole > 0 {
		if _, err := c.out.Write(out[:whole]); err != nil {
			c.lost(err)
			return 0, err
		}
		for left := out[:whole]; len(left) > 0; {
			f, size := nextFrame(left)
			c.left(f)
			left = left[size:]
		}
	}
	c.partial = append(c.partial[:0], out[whole:]...)
	return len(p), nil
}

// leaving notes what must hold before a frame is on the wire: that a channel is shut.
func (c *conn) leaving(f frame) {
	switch f.method {
	case channelOpen:
		c.opened = &lane{channel: f.channel, cancelWritten: make(chan struct{}), closeWritten: make(chan struct{}), closeOKWritten: make(chan struct{})}
		c.lanes[f.channel] = c.opened
	case channelClose, channelCloseOK:
		if l := c.lanes[f.channel]; l != nil {
			l.shut = true
		}
	}
}

// left notes that a frame was written.
func (c *conn) left(f frame) {
	l := c.lanes[f.channel]
	if l == nil {
		return
	}
	switch f.method {
	case basicCancel:
		closeOnce(l.cancelWritten)
	case channelClose:
		closeOnce(l.closeWritten)
	case channelCloseOK:
		closeOnce(l.closeOKWritten)
		delete(c.lanes, f.channel)
	}
}

// lastOpened returns the lane of the last channel.open. Channels are opened one at a time.
func (c *conn) lastOpened() *lane {
	c.turn.Lock()
	defer c.turn.Unlock()
	return c.opened
}

// writeFrames writes whole frames of the lane's channel at once, unless the channel has been closed. Any error but
// errChannelShut is the end of the socket, for a frame may be torn.
func (c *conn) writeFrames(l *lane, frames []byte) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if l.shut {
		return errChannelShut
	}
	if _, err := c.out.Write(frames); err != nil {
		c.lost(err)
		_ = c.socket.Close()
		return err
	}
	return nil
}

// cut closes the socket without asking. It never blocks.
func (c *conn) cut() { c.fail(transport.EndCut, errCut) }

// fail closes the socket and notes why, unless it had ended before.
func (c *conn) fail(kind transport.EndKind, err error) {
	c.broken.CompareAndSwap(nil, &breakage{kind: kind, err: err, at: deadline.Now()})
	_ = c.socket.Close()
}

// lost notes an error of the socket, unless it comes of closing it here.
func (c *conn) lost(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	c.broken.CompareAndSwap(nil, &breakage{kind: endOf(err), err: err, at: deadline.Now()})
}

// endOf tells the peer's end of a socket from its silence.
func endOf(err error) transport.EndKind {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return transport.EndPeerReset
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return transport.EndSilent // a missed heartbeat or the kernel's own patience; no route is no word either
	}
	return transport.EndProtocol // what TLS could not read
}

// closeOnce closes a channel that only conn closes, under its turn.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// isClosed reports whether an event channel has been closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
