package faultproxy

import (
	"net"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// pair is one client's connection and ours to the target; server is nil for a client that is ignored.
type pair struct {
	proxy          *Proxy
	client, server *net.TCPConn
	once           sync.Once
	over           chan struct{} // closed by end
}

const (
	chunkSize = 32 << 10
	inTransit = 256 // chunks held back by a latency before the reader waits
)

// chunk is what one read brought, and when it may be passed on.
type chunk struct {
	bytes []byte
	due   time.Time
}

func (c *pair) in(d Direction) *net.TCPConn {
	if d == ToServer {
		return c.client
	}
	return c.server
}

func (c *pair) out(d Direction) *net.TCPConn {
	if d == ToServer {
		return c.server
	}
	return c.client
}

// end closes both sides, with a reset or in order.
func (c *pair) end(reset bool) {
	c.once.Do(func() {
		close(c.over)
		for _, side := range []*net.TCPConn{c.client, c.server} {
			if side == nil {
				continue
			}
			if reset {
				_ = side.SetLinger(0)
			}
			_ = side.Close()
		}
	})
}

func (c *pair) finish(d Direction) {
	if out := c.out(d); out != nil {
		_ = out.CloseWrite()
	}
}

// pump moves one direction: it reads and judges, a second goroutine passes on when it is time.
func (c *pair) pump(d Direction) {
	chunks := make(chan chunk, inTransit)
	var passing sync.WaitGroup
	passing.Go(func() { c.pass(d, chunks) })
	defer passing.Wait()
	defer close(chunks)
	buf := make([]byte, chunkSize)
	for {
		if !c.mayRead(d) {
			return
		}
		n, err := c.in(d).Read(buf)
		if n > 0 {
			for _, t := range c.proxy.tripped(d, buf[:n]) {
				t.fire()
			}
			set, _ := c.proxy.now(d)
			if set.mode == Stall {
				if !c.mayRead(d) {
					return
				}
				set, _ = c.proxy.now(d)
			}
			if set.mode == Pass {
				select {
				case chunks <- chunk{append([]byte(nil), buf[:n]...), deadline.Now().Add(set.latency)}:
				case <-c.over:
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// mayRead waits while the direction is stalled; false means that the pair is over.
func (c *pair) mayRead(d Direction) bool {
	for {
		set, changed := c.proxy.now(d)
		if set.mode != Stall {
			return true
		}
		select {
		case <-changed:
		case <-c.over:
			return false
		}
	}
}

// pass writes chunks when they are due. When the sender has ended so do we towards the receiver, after the last chunk and only
// while bytes pass: through a black hole no end is seen either. What cannot be written ends the pair.
func (c *pair) pass(d Direction, chunks <-chan chunk) {
	for k := range chunks {
		if !c.sleep(deadline.Until(k.due)) {
			continue
		}
		set, _ := c.proxy.now(d)
		if set.mode == Discard {
			continue
		}
		if set.rate > 0 && !c.sleep(time.Duration(len(k.bytes))*time.Second/time.Duration(set.rate)) {
			continue
		}
		if _, err := c.out(d).Write(k.bytes); err != nil {
			c.end(false)
		}
	}
	if set, _ := c.proxy.now(d); set.mode == Pass {
		c.finish(d)
	}
}

// sleep waits for d; false means that the pair is over.
func (c *pair) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := deadline.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.over:
		return false
	}
}
