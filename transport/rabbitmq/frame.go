package rabbitmq

import (
	"encoding/binary"

	"github.com/lastcall-go/lastcall/transport"
)

// A frame on the wire, AMQP 0-9-1 section 2.3.5:
//
//	type (1)  channel (2)  size (4)  payload (size)  end (1)
//
// A method frame's payload begins with the method's class and number.
const (
	frameMethod   = 1
	frameEnd      = 0xCE
	frameOverhead = 8

	// greeting is the first byte of the protocol header, which is no frame and eight bytes long.
	greeting     = 'A'
	greetingSize = 8
)

// method is a class in the upper and a method number in the lower half.
type method uint32

const (
	channelOpen    method = 20<<16 | 10
	channelOpenOK  method = 20<<16 | 11
	channelClose   method = 20<<16 | 40
	channelCloseOK method = 20<<16 | 41
	basicCancel    method = 60<<16 | 30
	basicAck       method = 60<<16 | 80
	basicReject    method = 60<<16 | 90
	basicNack      method = 60<<16 | 120
)

const (
	settlementPayload = 13 // class, method, delivery tag, one byte of bits
	settlementSize    = frameOverhead + settlementPayload

	bitMultiple byte = 1 << 0 // of ack and nack
	bitRequeue  byte = 1 << 1 // of nack
)

// appendSettlement appends the frame that settles tag, and with multiple every outstanding delivery below it. Rejects are sent
// without requeue; what goes back goes with nack, because RabbitMQ 4.3 and later count a reject against a delivery limit.
func appendSettlement(b []byte, channel uint16, verb transport.Verb, tag uint64, multiple bool) []byte {
	m, bits := basicAck, byte(0)
	switch verb {
	case transport.Requeue:
		m, bits = basicNack, bitRequeue
	case transport.Reject:
		m = basicReject
	}
	if multiple {
		bits |= bitMultiple
	}
	b = append(b, frameMethod)
	b = binary.BigEndian.AppendUint16(b, channel)
	b = binary.BigEndian.AppendUint32(b, settlementPayload)
	b = binary.BigEndian.AppendUint32(b, uint32(m))
	b = binary.BigEndian.AppendUint64(b, tag)
	return append(b, bits, frameEnd)
}

// frame is what is read of one frame: its channel, and its method if it has one.
type frame struct {
	channel uint16
	method  method
}

// nextFrame reads the frame at the beginning of b and returns its length, 0 while b holds less than the whole of it.
func nextFrame(b []byte) (f frame, size int) {
	if len(b) == 0 {
		return frame{}, 0
	}
	if b[0] == greeting {
		if len(b) < greetingSize {
			return frame{}, 0
		}
		return frame{}, greetingSize
	}
	if len(b) < frameOverhead {
		return frame{}, 0
	}
	size = int(binary.BigEndian.Uint32(b[3:])) + frameOverhead
	if len(b) < size {
		return frame{}, 0
	}
	f.channel = binary.BigEndian.Uint16(b[1:])
	if b[0] == frameMethod && size >= frameOverhead+4 {
		f.method = method(binary.BigEndian.Uint32(b[7:]))
	}
	return f, size
}
