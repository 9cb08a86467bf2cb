package rabbitmq

import (
	"crypto/tls"
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/transport"
)

// inExclusiveUse is the one thing that AMQP says by text alone: code 403 is a missing permission, or a queue that another
// consumer has for itself.
const inExclusiveUse = "in exclusive use"

// brokerError turns what amqp091 returned into a *transport.Error; nil stays nil.
func brokerError(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	e := &transport.Error{Kind: transport.KindUnavailable, Op: op, Subject: subject}
	said, ok := errors.AsType[*amqp.Error](err)
	switch {
	case !ok: // of the socket
		e.Kind, e.Err = transport.KindClosed, err
		return e
	case !said.Server && errors.Is(err, amqp.ErrSASL):
		e.Kind, e.Text = transport.KindRefused, "the broker offers none of our ways to log in (PLAIN, or EXTERNAL with auth_mechanism=external)"
		return e
	case !said.Server:
		e.Kind, e.Text = transport.KindClosed, "the connection or channel ended before the answer came"
		return e
	}
	e.Code, e.Text = said.Code, said.Reason
	switch said.Code {
	case amqp.AccessRefused:
		e.Kind = transport.KindRefused
		if strings.Contains(said.Reason, inExclusiveUse) {
			e.Kind = transport.KindLocked
		}
	case amqp.ResourceLocked:
		e.Kind = transport.KindLocked
	case amqp.NotFound:
		e.Kind = transport.KindNotFound
		e.Text += "; create it, or have it declared as classic or quorum"
	case amqp.PreconditionFailed:
		e.Kind = transport.KindMismatch
		e.Text += "; declare it with the arguments it has, or passively"
	case amqp.NotAllowed:
		e.Kind = transport.KindRefused
	case amqp.NotImplemented, amqp.CommandInvalid, amqp.SyntaxError:
		e.Kind = transport.KindInvalid
	}
	return e
}

// dialError turns what ended a dial into a *transport.Error.
func dialError(op, addr string, err error) *transport.Error {
	e := &transport.Error{Kind: transport.KindUnavailable, Op: op, Subject: addr, Err: err}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.Kind, e.Text = transport.KindRefused, "the broker's certificate was not accepted"
	} else if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		e.Kind, e.Text = transport.KindRefused, "the broker does not speak TLS on this port: use amqp, or the TLS port"
	} else if _, ok := errors.AsType[tls.AlertError](err); ok {
		e.Kind, e.Text = transport.KindRefused, "the broker refused TLS with our configuration"
	}
	return e
}
