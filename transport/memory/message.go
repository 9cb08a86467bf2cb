package memory

import (
	"time"

	"github.com/lastcall-go/lastcall/transport"
)

// Message is what is published. The broker keeps Body and Headers as they are: nobody may write to them again.
type Message struct {
	Body          []byte
	MessageID     string
	CorrelationID string
	ReplyTo       string
	Type          string
	AppID         string
	ContentType   string
	Encoding      string
	Priority      uint8
	Persistent    bool
	Published     time.Time // zero means that the publisher set none
	Headers       map[string]any
}

// message is a Message in a queue.
type message struct {
	Message
	seq         uint64 // its place in the queue, kept when it comes back
	redelivered bool
	returns     uint64 // how often it came back
}

// delivery makes the Delivery that f hands over.
func (f *frame) delivery(q *queue) *transport.Delivery {
	m := f.message
	d := &transport.Delivery{
		Tag: f.n, Body: m.Body, Redelivered: f.redelivered,
		MessageID: m.MessageID, CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		ContentType: m.ContentType, Encoding: m.Encoding, RoutingKey: q.name, Priority: m.Priority,
		Persistent: m.Persistent, Published: m.Published, Headers: m.Headers,
	}
	if q.counts() {
		d.DeliveryCount = f.returns
	}
	return d
}
