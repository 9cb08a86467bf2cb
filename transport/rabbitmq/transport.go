package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// Transport dials RabbitMQ. Safe for concurrent use.
type Transport struct{ endpoint endpoint }

var errDialTimeout = errors.New("the dial timeout passed")

// New validates cfg and touches nothing. Its errors are *transport.Error of KindInvalid and show no part of the URL.
func New(cfg Config) (*Transport, error) {
	e, err := newEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &Transport{endpoint: e}, nil
}

// Kind returns "rabbitmq".
func (t *Transport) Kind() string { return "rabbitmq" }

// Dial opens one session: socket, TLS and AMQP handshake, within ctx and the dial timeout. When it fails, the socket is closed
// and amqp091's goroutines are on their way out. Errors are *transport.Error: KindRefused when credentials, virtual host or
// certificates are at fault, KindUnavailable otherwise.
func (t *Transport) Dial(ctx context.Context) (transport.Session, error) {
	e := t.endpoint
	ctx, cancel := deadline.Timeout(ctx, e.timeout, errDialTimeout)
	defer cancel()
	user, password, err := e.ask(ctx)
	if err != nil {
		return nil, &transport.Error{Kind: transport.KindUnavailable, Op: "get credentials", Subject: e.addr, Err: err}
	}
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	uncut := context.AfterFunc(ctx, c.cut)
	client, err := amqp.Open(c, e.handshake(user, password))
	if uncut() && err == nil {
		return newSession(c, client, e), nil
	}
	if err == nil || ctx.Err() != nil {
		err = &transport.Error{Kind: transport.KindUnavailable, Op: "handshake", Subject: e.addr, Err: cause(ctx)}
	} else {
		err = handshakeError(c, e.addr, err)
	}
	c.cut()
	_ = client.CloseDeadline(deadline.Now()) // frees amqp091's reader if an answer that nobody waits for holds it up
	return nil, err
}

var errCredentials = errors.New("the function for credentials did not return")

// ask gets user and password. The function is code of the application: its panic is a failed dial.
func (e *endpoint) ask(ctx context.Context) (user, password string, err error) {
	type answer struct {
		user, password string
		err            error
	}
	answers := make(chan answer, 1)
	go func() { // owned by the function that it calls, which may outlive us
		a := answer{err: errCredentials} // of a function that leaves its goroutine
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("%w: panic: %v", errCredentials, v)
			}
			answers <- a
		}()
		a.user, a.password, a.err = e.credentials(ctx)
	}()
	select {
	case a := <-answers:
		return a.user, a.password, a.err
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
}

// connect opens the socket, and TLS on it.
func (e *endpoint) connect(ctx context.Context) (*conn, error) {
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "tcp", e.addr)
	if err != nil {
		return nil, dialError("dial", e.addr, orCause(ctx, err))
	}
	var plain io.ReadWriter = socket
	if e.tls != nil {
		secure := tls.Client(socket, e.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = socket.Close()
			return nil, dialError("TLS handshake", e.addr, orCause(ctx, err))
		}
		plain = secure
	}
	return newConn(socket, plain), nil
}

// handshake is what amqp091 is told.
func (e *endpoint) handshake(user, password string) amqp.Config {
	properties := amqp.Table{"product": "Lastcall", "platform": runtime.Version()}
	if e.name != "" {
		properties["connection_name"] = e.name
	}
	var way amqp.Authentication = &amqp.PlainAuth{Username: user, Password: password}
	if e.external {
		way = &amqp.ExternalAuth{}
	}
	return amqp.Config{
		SASL: []amqp.Authentication{login{way, properties}}, Vhost: e.vhost, ChannelMax: e.channelMax, FrameSize: 128 << 10,
		Heartbeat: e.heartbeat, Properties: properties, Locale: "en_US",
	}
}

// login is a way to log in that also asks RabbitMQ to say so when it refuses us; without being asked it closes the socket in
// silence, which could mean anything. amqp091 sets the capabilities itself, just before it asks for the response.
type login struct {
	amqp.Authentication
	properties amqp.Table
}

// Response returns what the mechanism sends.
func (l login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

// handshakeError names what ended a handshake: what the broker said, what was heard of the socket, or else what amqp091 thinks.
// amqp091 calls any end in these steps a refusal; only the broker's own word is taken for one.
func handshakeError(c *conn, addr string, err error) error {
	said, ok := errors.AsType[*amqp.Error](err)
	if ok && (said.Server || errors.Is(err, amqp.ErrSASL)) {
		e := brokerError("handshake", addr, err).(*transport.Error)
		if e.Code == amqp.AccessRefused {
			e.Text += "; user and password must be known to the broker, and the user allowed in the virtual host"
		}
		return e
	}
	if b := c.broken.Load(); b != nil {
		return dialError("handshake", addr, b.err)
	}
	return &transport.Error{Kind: transport.KindUnavailable, Op: "handshake", Subject: addr, Text: "the peer does not speak AMQP 0-9-1"}
}

// cause is what ended ctx, as an error even if it has not ended.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return context.Canceled
}

// orCause prefers what ended ctx to the error that followed from it.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// info reads the peer's own words.
func info(client *amqp.Connection, c *conn, e endpoint) transport.Info {
	text := func(key string) string {
		s, _ := client.Properties[key].(string)
		return s
	}
	node := text("node")
	if node == "" {
		node = text("cluster_name") // before 4.0 the node does not give its own name
	}
	return transport.Info{
		Product: text("product"), Version: text("version"), Node: node, VHost: e.vhost, ConnectionName: e.name,
		LocalAddr: c.socket.LocalAddr().String(),
	}
}

// countsReturns reports whether a broker of this version counts every return against a quorum queue's delivery limit: those
// before 4.3 do. What cannot be read is taken for new.
func countsReturns(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return errA == nil && errB == nil && (a < 4 || a == 4 && b < 3)
}
