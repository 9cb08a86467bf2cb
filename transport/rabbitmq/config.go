package rabbitmq

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/transport"
)

// Defaults of a Config.
const (
	DefaultHeartbeat   = 10 * time.Second
	DefaultDialTimeout = 10 * time.Second

	maxHeartbeat = 65535 * time.Second
)

// Config says which broker to connect to, and how.
type Config struct {
	// URL is amqp://user:password@host:port/vhost, or amqps:// for TLS. Reserved characters in user, password and virtual host
	// are percent-encoded. Of the URI query parameters heartbeat, connection_timeout, channel_max, auth_mechanism and
	// server_name_indication are understood; a field below that is set wins over its parameter.
	URL string
	// Credentials is asked for user and password at each dial, in place of the URL's. It must return when its ctx ends; it is
	// left behind if it does not. Nil means those of the URL.
	Credentials func(ctx context.Context) (user, password string, err error)
	// ConnectionName is what the broker lists the connection as. Empty means no name.
	ConnectionName string
	// Heartbeat is the interval asked for, whole seconds from 1 s to 65535 s; the broker may lower it. After one and a half of
	// them without a byte the session ends as silent. Zero means the URL's, or 10 s.
	Heartbeat time.Duration
	// DialTimeout bounds one dial with its handshakes, whatever the context given to Dial allows. Zero means the URL's
	// connection_timeout, or 10 s.
	DialTimeout time.Duration
	// TLS is used for an amqps URL; it is cloned, and its ServerName filled in where empty. Nil means the system's roots and TLS
	// 1.2 at least.
	TLS *tls.Config
}

// endpoint is a Config after validation. No field of it holds a secret, so that none is printed with it.
type endpoint struct {
	addr        string // host and port
	vhost       string
	credentials func(ctx context.Context) (user, password string, err error)
	external    bool
	tls         *tls.Config // nil without TLS
	channelMax  uint16
	name        string
	heartbeat   time.Duration
	timeout     time.Duration
}

// newEndpoint validates cfg. Its errors quote no part of the URL: where it is wrong, any part may be a piece of the password.
func newEndpoint(cfg Config) (endpoint, error) {
	u, err := parseURL(cfg.URL)
	if err != nil {
		return endpoint{}, err
	}
	uri, err := amqp.ParseURI(cfg.URL)
	if err != nil || uri.Port < 1 || uri.Port > 65535 {
		return endpoint{}, invalid("broker URL", `the URL must be amqp://user:password@host:port/vhost or amqps://…, with numbers where numbers belong; it is not shown because it may hold a password`)
	}
	e := endpoint{
		addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), vhost: uri.Vhost,
		channelMax: uri.ChannelMax, name: cfg.ConnectionName, credentials: cfg.Credentials,
		heartbeat: DefaultHeartbeat, timeout: DefaultDialTimeout,
	}
	if err := e.parameters(u.Query()); err != nil {
		return endpoint{}, err
	}
	if e.credentials == nil {
		e.credentials = func(context.Context) (string, string, error) { return uri.Username, uri.Password, nil }
	}
	if cfg.Heartbeat != 0 {
		e.heartbeat = cfg.Heartbeat
	}
	if cfg.DialTimeout != 0 {
		e.timeout = cfg.DialTimeout
	}
	switch {
	case e.heartbeat < time.Second || e.heartbeat > maxHeartbeat || e.heartbeat%time.Second != 0:
		return endpoint{}, invalid("heartbeat", fmt.Sprintf("%s: it must be whole seconds from 1s to %s; without one a silent broker goes unnoticed", e.heartbeat, maxHeartbeat))
	case e.timeout <= 0:
		return endpoint{}, invalid("dial timeout", fmt.Sprintf("%s: it must be positive", e.timeout))
	case len(e.name) > 255:
		return endpoint{}, invalid("connection name", "it must be at most 255 bytes long")
	}
	if uri.Scheme == "amqps" {
		e.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.TLS != nil {
			e.tls = cfg.TLS.Clone()
		}
		if e.tls.ServerName == "" {
			e.tls.ServerName = uri.Host
			if uri.ServerName != "" {
				e.tls.ServerName = uri.ServerName
			}
		}
	} else if cfg.TLS != nil {
		return endpoint{}, invalid("broker URL", "TLS is configured, but the URL's scheme is amqp: use amqps")
	}
	return e, nil
}

// parseURL refuses what net/url accepts although a password with an unescaped character cut the URL in the wrong place.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || text == "" || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return nil, invalid("broker URL", `it cannot be read; reserved characters in user, password and virtual host (@ : / ? # %) must be percent-encoded; it is not shown because it may hold a password`)
	}
	return u, nil
}

// parameters reads the URI query parameters, see https://www.rabbitmq.com/docs/uri-query-parameters.
func (e *endpoint) parameters(q url.Values) error {
	for key := range q {
		value := q.Get(key)
		n, numberErr := strconv.ParseUint(value, 10, 31)
		switch key {
		case "heartbeat":
			e.heartbeat = time.Duration(n) * time.Second
		case "connection_timeout":
			e.timeout = time.Duration(n) * time.Millisecond
		case "channel_max":
		case "auth_mechanism":
			numberErr = nil
			e.external = strings.EqualFold(value, "external")
			if !e.external && !strings.EqualFold(value, "plain") {
				return invalid("broker URL", "auth_mechanism must be plain or external")
			}
		case "server_name_indication":
			numberErr = nil
		default:
			return invalid("broker URL", "a query parameter is not one of heartbeat, connection_timeout, channel_max, auth_mechanism, server_name_indication; TLS files belong into the TLS configuration")
		}
		if numberErr != nil {
			return invalid("broker URL", "heartbeat, connection_timeout and channel_max must be numbers")
		}
	}
	return nil
}

func invalid(subject, text string) *transport.Error {
	return &transport.Error{Kind: transport.KindInvalid, Op: "configure", Subject: subject, Text: text}
}
