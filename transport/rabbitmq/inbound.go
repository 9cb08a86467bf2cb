package rabbitmq

import (
	"bufio"
	"encoding/binary"
	"io"
)

// inbound is what the peer sends, less the frames that still come for a channel after the peer has closed it. RabbitMQ sends
// deliveries that were under way, and amqp091 answers them by closing the whole connection.
type inbound struct {
	from *bufio.Reader // large, because amqp091 reads 4 KiB at a time
	left int           // of the frame that is being handed out
	shut map[uint16]bool
}

const readBuffer = 64 << 10

func newInbound(from io.Reader) *inbound {
	return &inbound{from: bufio.NewReaderSize(from, readBuffer), shut: make(map[uint16]bool)}
}

// Read waits for the first bytes only, and then hands out what else is there.
func (r *inbound) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if n > 0 && r.from.Buffered() < peekSize {
			return n, nil
		}
		if r.left == 0 {
			if err := r.next(); err != nil {
				return n, err
			}
			continue
		}
		k, err := r.from.Read(p[n:min(len(p), n+r.left)])
		n += k
		r.left -= k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

const peekSize = frameOverhead - 1 + 4 // the header, and class and number of a method

// next looks at the next frame: it is to be handed out, or dropped here.
func (r *inbound) next() error {
	header, err := r.from.Peek(frameOverhead - 1)
	if err != nil {
		return r.rest(err)
	}
	size := int(binary.BigEndian.Uint32(header[3:])) + frameOverhead
	channel := binary.BigEndian.Uint16(header[1:])
	if header[0] == frameMethod && size >= peekSize+1 {
		if header, err = r.from.Peek(peekSize); err != nil {
			return r.rest(err)
		}
		switch method(binary.BigEndian.Uint32(header[7:])) {
		case channelOpenOK:
			delete(r.shut, channel)
		case channelClose:
			if !r.shut[channel] {
				r.shut[channel] = true
				r.left = size
				return nil
			}
		}
	}
	if r.shut[channel] {
		_, err := r.from.Discard(size)
		return err
	}
	r.left = size
	return nil
}

// rest hands out what comes before an end within a frame's first bytes.
func (r *inbound) rest(err error) error {
	if r.left = r.from.Buffered(); r.left > 0 {
		return nil
	}
	return err
}
