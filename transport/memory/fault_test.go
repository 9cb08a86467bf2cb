package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

func one(queue string) transport.Subscription {
	return transport.Subscription{Queue: queue, Prefetch: 1}
}

func TestWithheldReplies(t *testing.T) {
	t.Run("cancel", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Withhold(memory.ReplyCancel)
			p := b.consume(b.session, one("q"))
			b.publish("q", "a", "b")
			p.Cancel()
			p.want(b, "deliver 1 a", "cancel_written at 0s")
			p.settle(transport.Ack, 1) // the consumer is gone all the same: no b
			p.want(b, "written ack 1")
			if err := p.Close(b.within(time.Second)); err != errOver {
				b.Errorf("Close returned %v behind a cancel that was not answered", err)
			}
			if err := p.Close(b.within(time.Second)); transport.KindOf(err) != transport.KindUnanswered {
				b.Errorf("the second Close returned %v", err)
			}
			b.Release(memory.ReplyCancel) // what the close was waiting for
			p.want(b, "cancel_ok at 1s", "proven 1 reply", "barrier at 1s", "close_written at 1s", "close_ok at 1s", `ended close_ok by "us" of stream`)
			b.wantReady("q", "b")
		})
	})

	t.Run("barrier", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Withhold(memory.ReplyBarrier)
			p := b.consume(b.session, one("q"))
			b.publish("q", "a")
			p.want(b, "deliver 1 a")
			p.settle(transport.Ack, 1)
			if err := p.Close(b.within(time.Second)); err != errOver {
				b.Errorf("Close returned %v", err)
			}
			p.want(b, "written ack 1")
			p.Cancel() // too late
			b.publish("q", "b")
			p.want(b, "proven 1 window", "deliver 2 b")
			b.Release()
			p.want(b, "barrier at 1s", "close_written at 1s", "close_ok at 1s", `ended close_ok by "us" of stream`)
		})
	})

	t.Run("barrier, and then the session is closed", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Withhold(memory.ReplyBarrier)
			p := b.consume(b.session, one("q"))
			b.publish("q", "a")
			p.want(b, "deliver 1 a")
			p.settle(transport.Ack, 1)
			if err := p.Close(b.within(time.Second)); err != errOver {
				b.Errorf("Close returned %v", err)
			}
			if err := b.session.Close(b.Context()); err != nil {
				b.Errorf("Session.Close returned %v", err)
			}
			p.want(b, "written ack 1", "connection_close_ok at 1s", `ended close_ok by "us" of session`)
		})
	})

	t.Run("channel close", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Withhold(memory.ReplyChannelClose)
			p := b.consume(b.session, one("q"))
			b.publish("q", "a")
			p.want(b, "deliver 1 a")
			if err := p.Close(b.within(time.Second)); err != errOver {
				b.Errorf("Close returned %v", err)
			}
			p.want(b, "close_written at 0s")
			b.wantReady("q", "a") // the act is done, its answer is missing
			p.settle(transport.Ack, 1)
			p.want(b, "failed ack 1 closed")
			if err := b.session.Close(b.Context()); err != nil {
				b.Errorf("Session.Close returned %v", err)
			}
			p.want(b, "connection_close_ok at 1s", `ended close_ok by "us" of session`)
			if err := p.Close(b.Context()); transport.KindOf(err) != transport.KindClosed {
				b.Errorf("Close returned %v after the session's", err)
			}
			b.Release()
			p.want(b)
		})
	})

	t.Run("connection close", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Withhold(memory.ReplyConnectionClose)
			p := b.consume(b.session, one("q"))
			b.publish("q", "a")
			p.want(b, "deliver 1 a")
			for range 2 {
				if err := b.session.Close(b.within(time.Second)); err != errOver {
					b.Errorf("Close returned %v", err)
				}
			}
			if _, err := b.session.Consume(b.Context(), one("q"), &tape{}); transport.KindOf(err) != transport.KindClosed {
				b.Errorf("Consume on a closing session returned %v", err)
			}
			p.settle(transport.Ack, 1)
			p.want(b, "failed ack 1 closed")
			b.wantReady("q", "a")
			b.Release(memory.ReplyConnectionClose)
			p.want(b, "connection_close_ok at 2s", `ended close_ok by "us" of session`)
			if err := b.session.Close(b.Context()); err != nil {
				b.Errorf("Close returned %v after the answer came", err)
			}
		})
	})

	t.Run("dial", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Withhold(memory.ReplyDial)
			_, err := b.Dial(b.within(time.Second))
			if transport.KindOf(err) != transport.KindUnanswered || !errors.Is(err, errOver) {
				b.Errorf("Dial returned %v", err)
			}
			time.AfterFunc(time.Second, func() { b.Release(memory.ReplyDial) })
			b.dial()
			if took := time.Since(b.start); took != 2*time.Second {
				b.Errorf("Dial returned after %s", took)
			}
		})
	})

	t.Run("consume", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.publish("q", "a")
			b.Withhold(memory.ReplyConsume)
			if _, err := b.session.Consume(b.within(time.Second), one("q"), &tape{}); transport.KindOf(err) != transport.KindUnanswered {
				b.Errorf("Consume returned %v", err)
			}
			b.wantReady("q", "a")
			time.AfterFunc(time.Second, func() { b.Release(memory.ReplyConsume) })
			b.consume(b.session, one("q")).want(b, "deliver 1 a")
		})
	})
}

func TestDelays(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		for i, r := range []memory.Reply{memory.ReplyDial, memory.ReplyConsume, memory.ReplyCancel, memory.ReplyBarrier,
			memory.ReplyChannelClose, memory.ReplyConnectionClose} {
			b.Delay(r, time.Duration(i+1)*time.Second)
		}
		s := b.dial()                 // at 1 s
		p := b.consume(s, one("q"))   // at 3 s
		q := b.consume(s, one("q"))   // at 5 s
		b.publish("q", "a", "b", "c") // a for p, b for q
		p.Cancel()
		p.want(b, "deliver 1 a", "cancel_written at 5s")
		p.settle(transport.Ack, 1)
		p.want(b, "written ack 1")
		if err := p.Close(b.Context()); err != nil { // cancel-ok at 8 s, barrier at 12 s, close-ok at 17 s
			b.Fatal(err)
		}
		p.want(b, "cancel_ok at 8s", "proven 1 reply", "barrier at 12s", "close_written at 12s", "close_ok at 17s", `ended close_ok by "us" of stream`)
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		q.want(b, "deliver 1 b", "connection_close_ok at 23s", `ended close_ok by "us" of session`)
	})
}

func TestDelayedRequestEndsWithItsContextAndItsSession(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		b.Delay(memory.ReplyDial, 5*time.Second)
		b.Delay(memory.ReplyConsume, 5*time.Second)
		if _, err := b.Dial(b.within(time.Second)); transport.KindOf(err) != transport.KindUnanswered || !errors.Is(err, errOver) {
			b.Errorf("Dial returned %v", err)
		}
		if _, err := b.session.Consume(b.within(time.Second), one("q"), &tape{}); transport.KindOf(err) != transport.KindUnanswered {
			b.Errorf("Consume returned %v", err)
		}
		time.AfterFunc(time.Second, b.session.Cut)
		if _, err := b.session.Consume(b.Context(), one("q"), &tape{}); transport.KindOf(err) != transport.KindClosed {
			b.Errorf("Consume returned %v", err)
		}
		if took := time.Since(b.start); took != 3*time.Second {
			b.Errorf("all that took %s", took)
		}
		time.AfterFunc(time.Second, func() { b.Release() }) // that another fault is lifted changes nothing
		b.dial()
		if took := time.Since(b.start); took != 8*time.Second {
			b.Errorf("a delay of 5s ended at %s, begun at 3s", took)
		}
	})
}

func TestDelayedReplyToAnEndedStreamIsLost(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		b.Delay(memory.ReplyCancel, time.Second)
		b.Delay(memory.ReplyConnectionClose, time.Second)
		p := b.consume(b.session, one("q"))
		p.Cancel()
		p.want(b, "cancel_written at 0s")
		if err := b.session.Close(b.within(time.Millisecond)); err != errOver {
			b.Errorf("Close returned %v", err)
		}
		b.session.Cut()
		p.want(b, "cut at 1ms", `ended cut by "us" of session`)
		time.Sleep(2 * time.Second)
		p.want(b)
		if k := b.session.End().Kind; k != transport.EndCut {
			b.Errorf("the session's end became %s", k)
		}
	})
}

func TestSilence(t *testing.T) {
	t.Run("what is written in it is taken when it ends", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 2})
			b.publish("q", "a", "b", "c", "d")
			p.want(b, "deliver 1 a", "deliver 2 b")
			b.Silence()
			p.settle(transport.Ack, 1)
			p.settle(transport.Requeue, 1)
			p.settle(transport.Reject, 2)
			p.Cancel()
			p.want(b, "written ack 1", "failed requeue 1 invalid", "written reject 2", "cancel_written at 0s")
			if _, ok := p.QueueState(); ok {
				b.Error("a silent peer told the queue's counters")
			}
			if _, err := b.Dial(b.within(time.Second)); transport.KindOf(err) != transport.KindUnanswered {
				b.Errorf("Dial returned %v", err)
			}
			if ready, unacked := b.Depth("q"); ready != 2 || unacked != 2 {
				b.Errorf("%d ready and %d unacked although the broker has heard nothing", ready, unacked)
			}
			b.Resume()
			p.want(b, "proven 2 reply", "cancel_ok at 1s")
			b.wantReady("q", "c", "d")
		})
	})

	t.Run("it ends for the named session alone", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Silence()
			b.Resume(b.session)
			b.consume(b.session, one("q"))
			if _, err := b.Dial(b.within(time.Second)); transport.KindOf(err) != transport.KindUnanswered {
				b.Errorf("Dial returned %v", err)
			}
			b.Resume()
			b.dial()
		})
	})

	t.Run("what is sent in it arrives when it ends", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 2})
			b.Silence(b.session)
			b.publish("q", "a", "b", "c")
			p.want(b)
			if ready, unacked := b.Depth("q"); ready != 1 || unacked != 2 {
				b.Errorf("%d ready, %d unacked", ready, unacked)
			}
			b.Resume(b.session)
			p.want(b, "deliver 1 a", "deliver 2 b")
		})
	})

	t.Run("what is written in it is lost with a cut", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			p := b.consume(b.session, one("q"))
			b.publish("q", "a")
			p.want(b, "deliver 1 a")
			b.Silence()
			p.settle(transport.Ack, 1)
			p.want(b, "written ack 1")
			b.session.Cut()
			p.want(b, "cut at 0s", `ended cut by "us" of session`)
			b.wantReady("q", "a")
		})
	})

	t.Run("a close of either kind is answered after it", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			p, q := b.consume(b.session, one("q")), b.consume(b.session, one("q"))
			b.Silence()
			if err := p.Close(b.within(time.Second)); err != errOver {
				b.Errorf("Stream.Close returned %v", err)
			}
			if err := b.session.Close(b.within(time.Second)); err != errOver {
				b.Errorf("Session.Close returned %v", err)
			}
			b.Resume()
			<-b.session.Done()
			p.want(b, "close_written at 0s", "connection_close_ok at 2s", `ended close_ok by "us" of session`)
			q.want(b, "connection_close_ok at 2s", `ended close_ok by "us" of session`)
		})
	})

	t.Run("an answer that comes due in it is heard after it", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			b.Delay(memory.ReplyConnectionClose, time.Second)
			if err := b.session.Close(b.within(time.Millisecond)); err != errOver {
				b.Errorf("Close returned %v", err)
			}
			b.Silence()
			time.Sleep(5 * time.Second)
			if k := b.session.End().Kind; k != 0 {
				b.Errorf("the session ended as %s in a silence", k)
			}
			b.Resume()
			if err := b.session.Close(b.Context()); err != nil {
				b.Errorf("Close returned %v", err)
			}
		})
	})

	t.Run("it is given up after one and a half heartbeats", func(t *testing.T) {
		bubble(t, plain, func(b *bench) {
			p := b.consume(b.session, one("q"))
			b.publish("q", "a")
			b.Silence()
			time.Sleep(10 * time.Second)
			b.Resume()
			time.Sleep(time.Second)
			b.Silence() // at 11 s, so to 26 s
			time.Sleep(10 * time.Second)
			p.want(b, "deliver 1 a")
			<-b.session.Done()
			if took := time.Since(b.start); took != 26*time.Second {
				b.Errorf("given up after %s", took)
			}
			p.want(b, `ended silent by "us" of session`)
			b.wantReady("q", "a")
		})
	})
}

func TestPeerEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*bench) int
		want []string
	}{
		{"drop", func(b *bench) int { return b.Drop(320, "CONNECTION_FORCED") },
			[]string{"peer_close at 0s: 320 CONNECTION_FORCED", `ended peer_close by "peer" of session`}},
		{"reset", func(b *bench) int { return b.Reset() },
			[]string{"peer_reset at 0s", `ended peer_reset by "peer" of session`}},
		{"consumer cancelled", func(b *bench) int { return b.CancelConsumers("q") },
			[]string{"consumer_cancelled at 0s", `ended consumer_cancelled by "peer" of stream`}},
		{"channel closed", func(b *bench) int { return b.CloseChannels("q", 406, "PRECONDITION_FAILED") },
			[]string{"peer_close at 0s: 406 PRECONDITION_FAILED", `ended peer_close by "peer" of stream`}},
		{"queue deleted", func(b *bench) int { b.Delete("q"); return 2 },
			[]string{"consumer_cancelled at 0s", `ended consumer_cancelled by "peer" of stream`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, plain, func(b *bench) {
				p, q := b.consume(b.session, one("q")), b.consume(b.dial(), one("q"))
				if n := c.end(b); n != 2 {
					b.Errorf("%d were ended, want 2", n)
				}
				p.want(b, c.want...)
				q.want(b, c.want...)
				p.settle(transport.Ack, 1)
				p.want(b, "failed ack 1 closed")
				if n := c.end(b); n != 0 && c.name != "queue deleted" {
					b.Errorf("%d were ended again", n)
				}
			})
		})
	}
}

func TestFaultsReachTheNamedSessionsAlone(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		other := b.dial()
		b.Silence(other)
		b.dial()
		p := b.consume(b.session, one("q"))
		if n := b.Drop(320, "", other); n != 1 {
			b.Errorf("%d were dropped", n)
		}
		if n := b.Reset(other); n != 0 {
			b.Errorf("%d ended sessions were reset", n)
		}
		if got := [2]transport.EndKind{b.session.End().Kind, other.End().Kind}; got != [2]transport.EndKind{0, transport.EndPeerClose} {
			b.Errorf("the sessions ended as %v", got)
		}
		b.publish("q", "a")
		p.want(b, "deliver 1 a")
	})
}

func TestFailedWrites(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 4})
		b.publish("q", "a", "b", "c", "d")
		synctest.Wait()
		p.want(b, "deliver 1 a", "deliver 2 b", "deliver 3 c", "deliver 4 d")
		b.FailWrites(2, nil)
		p.settle(transport.Ack, 1, 2, 3)
		p.settle(transport.Requeue, 1)
		p.want(b, "failed ack 1 unavailable", "failed ack 2 unavailable", "written ack 3", "failed requeue 1 invalid")
		if err := p.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		p.want(b, "proven 1 reply", "barrier at 0s", "close_written at 0s", "close_ok at 0s", `ended close_ok by "us" of stream`)
		b.wantReady("q", "a", "b", "d")
	})
}

func TestRefusedDials(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		b.RefuseDials(2, &transport.Error{Kind: transport.KindRefused, Op: "handshake", Code: 403})
		for i, want := range []transport.ErrorKind{transport.KindRefused, transport.KindRefused, 0} {
			s, err := b.Dial(b.Context())
			if got := transport.KindOf(err); got != want {
				b.Errorf("dial %d: kind %s, want %s", i, got, want)
			}
			if err == nil {
				s.Cut()
			}
		}
		b.RefuseDials(1, nil)
		if _, err := b.Dial(b.Context()); transport.KindOf(err) != transport.KindUnavailable {
			b.Errorf("Dial returned %v", err)
		}
	})
}

func TestBlocked(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		p := b.consume(b.session, one("q"))
		b.Block("low on memory")
		b.publish("q", "a")
		p.want(b, "blocked at 0s: low on memory", "deliver 1 a")
		b.Unblock()
		p.want(b, "unblocked at 0s")
	})
}

// cutter cuts its session at the first delivery, or at the first write if it acks.
type cutter struct {
	tape
	session transport.Session
	acks    bool
}

func (c *cutter) Deliver(d *transport.Delivery) {
	c.tape.Deliver(d)
	if !c.acks {
		c.session.Cut()
	}
}

func (c *cutter) Written(batch []*transport.Settlement, at time.Time) {
	c.tape.Written(batch, at)
	c.session.Cut()
}

func TestWhatWasWrittenBeforeACutArrives(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		b.publish("q", "a", "b", "c")
		c := &cutter{tape: tape{start: b.start}, session: b.session, acks: true}
		var err error
		if c.Stream, err = b.session.Consume(b.Context(), transport.Subscription{Queue: "q", Prefetch: 3}, c); err != nil {
			b.Fatal(err)
		}
		c.want(b, "deliver 1 a", "deliver 2 b", "deliver 3 c")
		c.settle(transport.Ack, 2)
		c.want(b, "written ack 2", "cut at 0s", `ended cut by "us" of session`)
		b.wantReady("q", "a", "c")
	})
}

func TestCutStopsTheDeliveriesThatHadArrived(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		b.publish("q", "a", "b", "c")
		c := &cutter{tape: tape{start: b.start}, session: b.session}
		if _, err := b.session.Consume(b.Context(), transport.Subscription{Queue: "q", Prefetch: 3}, c); err != nil {
			b.Fatal(err)
		}
		c.want(b, "deliver 1 a", "cut at 0s", `ended cut by "us" of session`)
		b.wantReady("q", "a", "b", "c")
	})
}
