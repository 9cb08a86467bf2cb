package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// contender consumes a queue and calls handle for each message. start returns once it consumes, with what ends it.
type contender struct {
	name       string
	concurrent bool // handlers run beside each other, so that one may be stuck
	start      func(ctx context.Context, url, queue string, s scenario, handle func()) (stop func(), err error)
}

var contenders = []contender{
	{"Lastcall", true, lastcall},
	{"amqp091-go, ack each", true, bare(ackEach)},
	{"amqp091-go, multiple every 64, one reader", false, bare(ackMultiple)},
	{"amqp091-go, auto-ack", true, bare(ackNever)},
	{"watermill-amqp", false, watermillAMQP},
}

func lastcall(ctx context.Context, url, queue string, s scenario, handle func()) (func(), error) {
	tr, err := rabbitmq.New(rabbitmq.Config{URL: url})
	if err != nil {
		return nil, err
	}
	declare := transport.DeclareClassic
	if s.Queue == "quorum" {
		declare = transport.DeclareQuorum
	}
	c, err := managed.New(managed.Config{Transport: tr, Logger: slog.New(slog.DiscardHandler), Subscriptions: []managed.Subscription{{
		Queue: queue, Prefetch: s.Prefetch, Concurrency: s.Concurrency, Declare: declare, Arguments: map[string]any{},
		Handler: func(context.Context, *managed.Delivery) managed.Outcome { handle(); return managed.Ack }}}})
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return func() { _ = c.Shutdown(context.Background()) }, nil
}

type acking int

const (
	ackEach acking = iota
	ackMultiple
	ackNever
)

// bare is a consumer as people write it by hand.
func bare(how acking) func(context.Context, string, string, scenario, func()) (func(), error) {
	return func(_ context.Context, url, queue string, s scenario, handle func()) (func(), error) {
		conn, err := amqp.Dial(url)
		if err != nil {
			return nil, err
		}
		ch, err := conn.Channel()
		if err != nil {
			return nil, err
		}
		if err := ch.Qos(s.Prefetch, 0, false); err != nil {
			return nil, err
		}
		deliveries, err := ch.Consume(queue, "", how == ackNever, false, false, false, nil)
		if err != nil {
			return nil, err
		}
		readers := s.Concurrency
		if how == ackMultiple {
			readers = 1
		}
		var wait sync.WaitGroup
		for range readers {
			wait.Go(func() {
				n := 0
				for d := range deliveries {
					handle()
					n++
					switch {
					case how == ackEach:
						_ = d.Ack(false)
					case how == ackMultiple && (n%64 == 0 || len(deliveries) == 0):
						_ = d.Ack(true)
					}
				}
			})
		}
		return func() { _ = conn.Close(); wait.Wait() }, nil
	}
}

func watermillAMQP(ctx context.Context, url, queue string, s scenario, handle func()) (func(), error) {
	cfg := wamqp.NewDurableQueueConfig(url)
	cfg.Consume.Qos.PrefetchCount = s.Prefetch
	cfg.Queue.Arguments = amqp.Table{"x-queue-type": s.Queue}
	sub, err := wamqp.NewSubscriber(cfg, watermill.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		return nil, err
	}
	messages, err := sub.Subscribe(ctx, queue)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for m := range messages {
			handle()
			m.Ack()
		}
	})
	return func() { _ = sub.Close(); wait.Wait() }, nil
}
