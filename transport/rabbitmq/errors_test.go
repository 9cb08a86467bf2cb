package rabbitmq

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/transport"
)

func TestBrokerErrorKinds(t *testing.T) {
	for _, c := range []struct {
		code   int
		reason string
		want   transport.ErrorKind
	}{
		{403, "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'", transport.KindRefused},
		{403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", transport.KindLocked},
		{404, "NOT_FOUND - no queue 'q' in vhost '/'", transport.KindNotFound},
		{405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'", transport.KindLocked},
		{406, "PRECONDITION_FAILED - inequivalent arg 'durable'", transport.KindMismatch},
		{530, "NOT_ALLOWED - vhost v not found", transport.KindRefused},
		{540, "NOT_IMPLEMENTED", transport.KindInvalid},
		{320, "CONNECTION_FORCED - broker forced connection closure", transport.KindUnavailable},
		{541, "INTERNAL_ERROR", transport.KindUnavailable},
	} {
		said := &amqp.Error{Code: c.code, Reason: c.reason, Server: true}
		e, ok := errors.AsType[*transport.Error](brokerError("op", "q", said))
		if !ok || e.Kind != c.want || e.Code != c.code || e.Op != "op" || e.Subject != "q" {
			t.Errorf("%d %s: %+v, want kind %s", c.code, c.reason, e, c.want)
		}
	}
	// What amqp091 makes up itself, and what the socket says, is no word of the broker's.
	for _, err := range []error{amqp.ErrClosed, amqp.ErrCredentials, &amqp.Error{Code: 404}, errors.New("write: broken pipe")} {
		if got := transport.KindOf(brokerError("op", "q", err)); got != transport.KindClosed {
			t.Errorf("%v: %s", err, got)
		}
	}
	if err := brokerError("op", "q", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestCountsReturnsByVersion(t *testing.T) {
	for version, want := range map[string]bool{"3.10.8": true, "3.13.7+2": true, "4.0.5": true, "4.2.0": true, "4.3.0": false, "4.10.1": false, "5.0.0": false, "": false, "new": false, "4": false} {
		if got := countsReturns(version); got != want {
			t.Errorf("%q: %t, want %t", version, got, want)
		}
	}
}
