package managed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
)

// A session that is lost is dialled again by its link's supervisor, a stream that ended is consumed again by its subscription's:
//
//	session lost -> (every stream of it ends) -> dial, with backoff -> new session -> every subscription consumes again
//	stream ended alone -------------------------------------------------------------> that subscription consumes again
//
// A shutdown ends all of it at once.

const (
	reconnectBase   = 100 * time.Millisecond
	reconnectFactor = 2
	// healthyAfter is how long a session or stream must have lived for the backoff to begin anew.
	healthyAfter = 5 * time.Second
	// attemptLimit bounds one dial or consume, so that a silent peer does not hold up the next try.
	attemptLimit = 15 * time.Second
	// maxMismatches is how often in a row the broker may say that the queue is another one before that is believed.
	maxMismatches = 2
)

var errAttemptLimit = errors.New("lastcall: the broker did not answer in time")

// retry is the sequence of waits: each a random part of an interval that doubles up to its cap.
type retry struct {
	sequence *backoff.ExponentialBackOff
	since    time.Time // the last success
}

func (c *Consumer) newRetry() *retry {
	return &retry{since: deadline.Now(), sequence: &backoff.ExponentialBackOff{
		InitialInterval: reconnectBase / 2, RandomizationFactor: 1, Multiplier: reconnectFactor, MaxInterval: c.cfg.Reconnect.Max / 2}}
}

// wait sleeps before the next try and returns false if ctx ended.
func (r *retry) wait(ctx context.Context) bool {
	return deadline.Sleep(ctx, r.sequence.NextBackOff()) == nil
}

func (r *retry) succeeded() { r.since = deadline.Now() }

// lost begins the sequence anew if what was lost had lived for a while.
func (r *retry) lost() {
	if deadline.Since(r.since) >= healthyAfter {
		r.sequence.Reset()
	}
}

// supervise starts the link's supervisors, unless a shutdown has begun.
func (l *link) supervise() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun {
		return
	}
	l.begun, l.watched = true, true
	l.supervisors.Go(l.keepSession)
	for _, sub := range l.subs {
		l.supervisors.Go(sub.keepStream)
	}
	go func() { // ends with the supervisors, which end with the link's life
		l.supervisors.Wait()
		close(l.idle)
	}()
}

// keepSession dials again whenever the session is lost.
func (l *link) keepSession() {
	retry := l.consumer.newRetry()
	for {
		if s, _ := l.live(); s != nil {
			select {
			case <-s.done:
			case <-l.life.Done():
				return
			}
			retry.lost()
		}
		if !l.redial(retry) {
			return
		}
		retry.succeeded()
	}
}

// redial tries until there is a session. It returns false when the link's life ended, also by its own fault.
func (l *link) redial(retry *retry) bool {
	down := deadline.Now()
	for {
		if !retry.wait(l.life) {
			return false
		}
		ctx, cancel := deadline.Timeout(l.life, attemptLimit, errAttemptLimit)
		s, err := l.dial(ctx)
		cancel()
		switch {
		case err == nil:
			l.consumer.log.Info("session opened", "transport", l.name, "session", s.number, "after", deadline.Since(down))
			return true
		case l.life.Err() != nil:
			return false
		}
		text := report.NewError(err).Text
		l.mu.Lock()
		l.reason = text
		l.mu.Unlock()
		l.consumer.log.Warn("broker not reached", "transport", l.name, "error", text, "for", deadline.Since(down))
		if limit := l.consumer.cfg.Reconnect.GiveUpAfter; deadline.Since(down) >= limit {
			l.consumer.fault(fmt.Sprintf("the connection of %q has been gone for %s", l.name, limit), err)
			return false
		}
	}
}

// await returns the current session as soon as there is one, nil when the link's life ends first.
func (l *link) await() *session {
	for {
		l.mu.Lock()
		s, changed := l.current, l.changed
		l.mu.Unlock()
		if s != nil {
			return s
		}
		select {
		case <-changed:
		case <-l.life.Done():
			return nil
		}
	}
}

// keepStream consumes again whenever the subscription's stream has ended.
func (sub *subscription) keepStream() {
	retry := sub.consumer.newRetry()
	for {
		sub.mu.Lock()
		st := sub.stream
		sub.mu.Unlock()
		select {
		case <-st.gone:
		case <-sub.link.life.Done():
			return
		}
		retry.lost()
		if !sub.reconsume(retry) {
			return
		}
		retry.succeeded()
	}
}

// reconsume tries until the subscription consumes. It returns false when the link's life ended or the subscription failed.
func (sub *subscription) reconsume(retry *retry) bool {
	var down time.Time // since when a live session refuses us
	mismatches := 0
	for {
		s := sub.link.await()
		if s == nil {
			return false
		}
		ctx, cancel := deadline.Timeout(sub.link.life, attemptLimit, errAttemptLimit)
		err := s.consume(ctx, sub)
		cancel()
		if err == nil {
			sub.consumer.log.Info("consuming again", "queue", sub.Queue, "session", s.number)
			return true
		}
		if sub.link.life.Err() != nil {
			return false
		}
		select {
		case <-s.done: // it was not the subscription's fault
			continue
		default:
		}
		if down.IsZero() {
			down = deadline.Now()
		}
		text := report.NewError(err).Text
		sub.mu.Lock()
		sub.reason = text
		sub.mu.Unlock()
		sub.consumer.log.Warn("cannot consume", "queue", sub.Queue, "error", text, "for", deadline.Since(down))
		if kind := transport.KindOf(err); kind == transport.KindMismatch || kind == transport.KindInvalid {
			mismatches++
		}
		if mismatches >= maxMismatches || deadline.Since(down) >= sub.consumer.cfg.Reconnect.GiveUpAfter {
			sub.fail(err)
			return false
		}
		if !retry.wait(sub.link.life) {
			return false
		}
	}
}

// fail gives a subscription up. When none is left, that is a fault.
func (sub *subscription) fail(err error) {
	c := sub.consumer
	sub.mu.Lock()
	if sub.state != subscriptionStopping {
		sub.state = subscriptionFailed
	}
	sub.mu.Unlock()
	c.log.Error("subscription failed", "queue", sub.Queue, "error", report.NewError(err).Text)
	c.mu.Lock()
	subs := c.subs
	c.mu.Unlock()
	for _, other := range subs {
		other.mu.Lock()
		failed := other.state == subscriptionFailed
		other.mu.Unlock()
		if !failed {
			return
		}
	}
	c.fault(fmt.Sprintf("every subscription has failed, the last one was %q", sub.Queue), err)
}
