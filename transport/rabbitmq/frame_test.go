package rabbitmq

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
)

func TestAppendSettlement(t *testing.T) {
	for name, c := range map[string]struct {
		verb     transport.Verb
		multiple bool
		want     []byte // the method and what follows the delivery tag
	}{
		"ack":          {transport.Ack, false, []byte{0, 60, 0, 80, 0}},
		"ack multiple": {transport.Ack, true, []byte{0, 60, 0, 80, 1}},
		"requeue":      {transport.Requeue, false, []byte{0, 60, 0, 120, 2}},
		"reject":       {transport.Reject, false, []byte{0, 60, 0, 90, 0}},
	} {
		got := appendSettlement([]byte("before"), 0x0102, c.verb, 0x1122334455667788, c.multiple)
		want := append([]byte("before"), 1, 1, 2, 0, 0, 0, 13)
		want = append(want, c.want[:4]...)
		want = append(want, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, c.want[4], 0xCE)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNextFrame(t *testing.T) {
	ack := appendSettlement(nil, 3, transport.Ack, 9, false)
	type result struct {
		F    frame
		Size int
	}
	for name, c := range map[string]struct {
		in   []byte
		want result
	}{
		"nothing":              {nil, result{}},
		"half a header":        {ack[:5], result{}},
		"all but the end":      {ack[:len(ack)-1], result{}},
		"one":                  {ack, result{frame{3, basicAck}, settlementSize}},
		"one and a half":       {append(bytes.Clone(ack), ack[:9]...), result{frame{3, basicAck}, settlementSize}},
		"heartbeat":            {[]byte{8, 0, 0, 0, 0, 0, 0, 0xCE}, result{frame{}, 8}},
		"body like a method":   {[]byte{3, 0, 5, 0, 0, 0, 4, 0, 60, 0, 80, 0xCE}, result{frame{channel: 5}, 12}},
		"method without one":   {[]byte{1, 0, 5, 0, 0, 0, 2, 0, 60, 0xCE}, result{frame{channel: 5}, 10}},
		"greeting":             {[]byte("AMQP\x00\x00\x09\x01"), result{frame{}, 8}},
		"half of the greeting": {[]byte("AMQP"), result{}},
	} {
		f, size := nextFrame(c.in)
		if diff := cmp.Diff(c.want, result{f, size}, cmp.AllowUnexported(frame{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever the bytes, a frame is never longer than what there is, and its size is what its header says.
func FuzzNextFrame(f *testing.F) {
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add(appendSettlement(nil, 1, transport.Requeue, 1, false))
	f.Add([]byte{1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, size := nextFrame(b)
		switch {
		case size == 0:
		case size > len(b) || size < 8:
			t.Fatalf("%d of %d bytes", size, len(b))
		case b[0] != greeting && uint64(size) != uint64(binary.BigEndian.Uint32(b[3:]))+8:
			t.Fatalf("%d bytes, the header says %d", size, binary.BigEndian.Uint32(b[3:]))
		}
	})
}
