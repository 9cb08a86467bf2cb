package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Direction names the way bytes travel.
type Direction uint8

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Mode is what happens to the bytes of one direction.
type Mode uint8

// The modes. The zero Mode passes everything on.
const (
	Pass    Mode = iota
	Discard      // keep reading, pass nothing on: a black hole
	Stall        // stop reading, so that the sender's window fills
)

// Proxy forwards connections from Addr to its target. Safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	dial     net.Dialer
	ctx      context.Context // ends when the proxy is closed
	cancel   context.CancelCauseFunc
	group    sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a setting changes
	set     [2]settings
	silent  bool
	pairs   map[*pair]struct{}
}

// settings are what one direction does at the moment. They hold for open and for later connections.
type settings struct {
	mode    Mode
	latency time.Duration
	rate    int
	trips   []*trip
}

type trip struct {
	pattern []byte
	fire    func()
}

var errClosed = errors.New("faultproxy: closed")

// New listens on a free loopback port and forwards to target, a host and port. Nothing is dialled before a client comes.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, changed: make(chan struct{}), pairs: make(map[*pair]struct{})}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.group.Go(p.accept)
	return p, nil
}

// Addr is the host and port that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends every connection and waits for every goroutine. It is idempotent.
func (p *Proxy) Close() {
	p.cancel(errClosed)
	_ = p.listener.Close()
	p.each(func(c *pair) { c.end(false) })
	p.group.Wait()
}

// Set changes what happens to the bytes of a direction.
func (p *Proxy) Set(d Direction, m Mode) { p.change(func() { p.set[d].mode = m }) }

// SetLatency holds the bytes of a direction back by d; zero means not at all. The order is kept.
func (p *Proxy) SetLatency(d Direction, latency time.Duration) {
	p.change(func() { p.set[d].latency = latency })
}

// SetRate caps a direction at so many bytes a second; zero means no cap.
func (p *Proxy) SetRate(d Direction, bytesPerSecond int) {
	p.change(func() { p.set[d].rate = bytesPerSecond })
}

// Silent makes connections that come from now on be accepted and then ignored: nothing is dialled, read or written.
func (p *Proxy) Silent(on bool) { p.change(func() { p.silent = on }) }

// When calls fire once, as soon as pattern arrives within one read of the direction and before it is passed on, so that what
// fire sets holds for it. fire is called by the proxy's own goroutine and must not call Close.
func (p *Proxy) When(d Direction, pattern []byte, fire func()) {
	p.change(func() { p.set[d].trips = append(p.set[d].trips, &trip{pattern: pattern, fire: fire}) })
}

// ResetAll ends every open connection with a TCP reset on both sides.
func (p *Proxy) ResetAll() { p.each(func(c *pair) { c.end(true) }) }

// Reset is ResetAll for the one connection of a client, named by its local address.
func (p *Proxy) Reset(client string) { p.only(client, func(c *pair) { c.end(true) }) }

// FinishAll closes the sending side towards the receiver of the direction: it reads an end of file, and can still write.
func (p *Proxy) FinishAll(d Direction) { p.each(func(c *pair) { c.finish(d) }) }

// Inject writes bytes of the test's own to the receiver of the direction, on the connection of the client with this local
// address. What passes at the same moment may be torn by them, unless the direction discards or stalls.
func (p *Proxy) Inject(client string, d Direction, b []byte) {
	p.only(client, func(c *pair) { _, _ = c.out(d).Write(b) })
}

// Open returns the number of open connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) each(f func(*pair)) {
	p.mu.Lock()
	pairs := make([]*pair, 0, len(p.pairs))
	for c := range p.pairs {
		pairs = append(pairs, c)
	}
	p.mu.Unlock()
	for _, c := range pairs {
		f(c)
	}
}

// only calls f for the connection of a client, if it is open.
func (p *Proxy) only(client string, f func(*pair)) {
	p.each(func(c *pair) {
		if c.client.RemoteAddr().String() == client {
			f(c)
		}
	})
}

// now returns the settings of a direction and a channel that closes when any setting changes.
func (p *Proxy) now(d Direction) (settings, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set[d], p.changed
}

// tripped takes out the trips of a direction that b springs.
func (p *Proxy) tripped(d Direction, b []byte) (sprung []*trip) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept []*trip
	for _, t := range p.set[d].trips {
		if bytes.Contains(b, t.pattern) {
			sprung = append(sprung, t)
		} else {
			kept = append(kept, t)
		}
	}
	p.set[d].trips = kept
	return sprung
}

// accept serves until the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// serve is one connection's whole life.
func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	c := &pair{proxy: p, client: client, over: make(chan struct{})}
	if !silent {
		server, err := p.dial.DialContext(p.ctx, "tcp", p.target)
		if err != nil {
			_ = client.Close()
			return
		}
		c.server = server.(*net.TCPConn)
	}
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		c.end(false)
		p.mu.Lock()
		delete(p.pairs, c)
		p.mu.Unlock()
	}()
	if p.ctx.Err() != nil { // Close may have missed it
		return
	}
	if silent {
		<-c.over
		return
	}
	var both sync.WaitGroup
	both.Go(func() { c.pump(ToServer) })
	both.Go(func() { c.pump(ToClient) })
	both.Wait()
}
