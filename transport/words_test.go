package transport_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{transport.Verb(0), "Verb(0)"},
		{transport.Ack, "ack"},
		{transport.Requeue, "requeue"},
		{transport.Reject, "reject"},
		{transport.Verb(4), "Verb(4)"},
		{transport.Proof(0), "Proof(0)"},
		{transport.ProvenWindow, "window"},
		{transport.ProvenReply, "reply"},
		{transport.ProvenReceipt, "receipt"},
		{transport.Proof(4), "Proof(4)"},
		{transport.EndKind(0), "EndKind(0)"},
		{transport.EndCloseOK, "close_ok"},
		{transport.EndPeerClose, "peer_close"},
		{transport.EndPeerReset, "peer_reset"},
		{transport.EndCut, "cut"},
		{transport.EndSilent, "silent"},
		{transport.EndCancelled, "consumer_cancelled"},
		{transport.EndProtocol, "protocol"},
		{transport.EndKind(8), "EndKind(8)"},
		{transport.ByNobody, ""},
		{transport.ByUs, "us"},
		{transport.ByPeer, "peer"},
		{transport.Party(3), "Party(3)"},
		{transport.DeclareDefault, "default"},
		{transport.DeclarePassive, "passive"},
		{transport.DeclareClassic, "classic"},
		{transport.DeclareQuorum, "quorum"},
		{transport.Declare(4), "Declare(4)"},
		{transport.ErrorKind(0), "ErrorKind(0)"},
		{transport.KindUnavailable, "unavailable"},
		{transport.KindRefused, "refused"},
		{transport.KindNotFound, "not_found"},
		{transport.KindMismatch, "mismatch"},
		{transport.KindLocked, "locked"},
		{transport.KindInvalid, "invalid"},
		{transport.KindUnanswered, "unanswered"},
		{transport.KindClosed, "closed"},
		{transport.ErrorKind(9), "ErrorKind(9)"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T(%d) is %q, want %q", c.value, c.value, got, c.want)
		}
	}
}

func TestEndsThatThePeerMade(t *testing.T) {
	var got []transport.EndKind
	for k := transport.EndKind(0); k <= transport.EndProtocol; k++ {
		if (transport.End{Kind: k}).PeerEnded() {
			got = append(got, k)
		}
	}
	want := []transport.EndKind{transport.EndCloseOK, transport.EndPeerClose, transport.EndPeerReset, transport.EndCancelled}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ends observed of the peer (-want +got):\n%s", diff)
	}
}

func TestKindsThatOnlyAChangeCures(t *testing.T) {
	var got []transport.ErrorKind
	for k := transport.ErrorKind(0); k <= transport.KindClosed+1; k++ {
		if k.Configuration() {
			got = append(got, k)
		}
	}
	want := []transport.ErrorKind{transport.KindRefused, transport.KindNotFound, transport.KindMismatch, transport.KindInvalid}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestError(t *testing.T) {
	for _, c := range []struct {
		err  transport.Error
		want string
	}{
		{transport.Error{Op: "dial"}, "dial"},
		{transport.Error{Op: "dial", Subject: "127.0.0.1:5672", Err: io.EOF}, `dial "127.0.0.1:5672": EOF`},
		{transport.Error{Op: "declare", Subject: "orders", Code: 404, Text: "NOT_FOUND - no queue"}, `declare "orders": 404: NOT_FOUND - no queue`},
		{transport.Error{Op: "qos", Code: 540}, "qos: 540"},
		{transport.Error{Op: "close", Text: "not answered", Err: io.EOF}, "close: not answered: EOF"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%+v reads %q, want %q", c.err, got, c.want)
		}
	}
	inner := &transport.Error{Kind: transport.KindRefused, Op: "handshake", Err: io.EOF}
	outer := fmt.Errorf("subscription: %w", errors.Join(io.ErrClosedPipe, inner))
	if got := transport.KindOf(outer); got != transport.KindRefused {
		t.Errorf("the kind of a wrapped error is %s", got)
	}
	if !errors.Is(outer, io.EOF) {
		t.Error("the cause is hidden")
	}
	for _, err := range []error{nil, io.EOF} {
		if got := transport.KindOf(err); got != 0 {
			t.Errorf("the kind of %v is %s", err, got)
		}
	}
}
