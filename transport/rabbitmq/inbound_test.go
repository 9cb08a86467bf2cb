package rabbitmq

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// pieces reads in pieces of random length.
type pieces struct {
	t    *rapid.T
	left []byte
}

func (r *pieces) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:rapid.IntRange(1, len(p)).Draw(r.t, "piece")], r.left)
	r.left = r.left[n:]
	return n, nil
}

// Frames for a channel are dropped from behind its channel.close until it is opened again; all other bytes pass unchanged,
// however they arrive, and also when they end within a frame.
func TestInboundDropsWhatFollowsAChannelClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, want []byte
		closed := make(map[uint16]bool)
		for range rapid.IntRange(0, 12).Draw(t, "frames") {
			channel := uint16(rapid.IntRange(0, 2).Draw(t, "channel"))
			m := rapid.SampledFrom([]method{channelClose, channelOpenOK, channelCloseOK, 60<<16 | 60}).Draw(t, "method")
			f := frameOf(channel, m, rapid.IntRange(4, 200).Draw(t, "size"))
			switch {
			case rapid.Bool().Draw(t, "content"):
				f[0] = 3 // a body that may look like a method
			case m == channelOpenOK:
				closed[channel] = false
			}
			if in = append(in, f...); !closed[channel] {
				want = append(want, f...)
			}
			if f[0] == frameMethod && m == channelClose {
				closed[channel] = true
			}
		}
		if tail := rapid.IntRange(0, 10).Draw(t, "cut"); rapid.Bool().Draw(t, "whole") || tail == 0 {
			// all of it
		} else if half := []byte{frameMethod, 0, 9, 0, 0, 0, 20, 0, 60, 0}[:tail]; true {
			in, want = append(in, half...), append(want, half...)
		}
		got, err := io.ReadAll(newInbound(&pieces{t, in}))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v: got %d bytes of %d, want %d", err, len(got), len(in), len(want))
		}
	})
}

// Whatever the bytes, they are neither multiplied nor made up, and an end is reported.
func FuzzInbound(f *testing.F) {
	f.Add(frameOf(1, channelClose, 20), byte(0))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"), byte(1))
	f.Add([]byte{frameMethod, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0, 20, 0, 40}, byte(1))
	f.Fuzz(func(t *testing.T, b []byte, slow byte) {
		var from io.Reader = bytes.NewReader(b)
		if slow%2 == 1 {
			from = iotest.OneByteReader(from)
		}
		got, err := io.ReadAll(newInbound(from))
		if err != nil || len(got) > len(b) || !bytes.HasPrefix(b, got[:min(len(got), 7)]) {
			t.Fatalf("%v: %d bytes became %d", err, len(b), len(got))
		}
	})
}
