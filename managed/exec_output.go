package managed

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// Caps on what is logged of a child's output. What is beyond them is read all the same, so that the child never blocks on it.
const (
	maxOutputLine     = 4 << 10
	maxOutputDelivery = 64 << 10
)

// output is what one child writes, on its way to the log. Its streams share the cap.
type output struct {
	log *slog.Logger

	mu      sync.Mutex
	left    int
	dropped int64
}

// outputStream reads one of the child's streams and logs it line by line.
type outputStream struct {
	out   *output
	name  string
	level slog.Level

	line []byte // the beginning of a line whose end has not come
	cut  bool   // more of that line came than fits
}

// copy reads r until it ends or its deadline comes. It is the whole life of a goroutine owned by the child's run.
func (s *outputStream) copy(r io.Reader) {
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		s.take(buf[:n])
		if err != nil {
			break
		}
	}
	if len(s.line) > 0 {
		s.flush()
	}
}

// take splits what has come into lines.
func (s *outputStream) take(chunk []byte) {
	for len(chunk) > 0 {
		rest, end := chunk, bytes.IndexByte(chunk, '\n')
		if end >= 0 {
			rest = chunk[:end]
		}
		if room := maxOutputLine - len(s.line); len(rest) > room {
			s.out.drop(len(rest) - room)
			s.cut, rest = true, rest[:room]
		}
		s.line = append(s.line, rest...)
		if end < 0 {
			return
		}
		chunk = chunk[end+1:]
		s.flush()
	}
}

// flush logs the line.
func (s *outputStream) flush() {
	line, cut := bytes.TrimSuffix(s.line, []byte{'\r'}), s.cut
	s.line, s.cut = s.line[:0], false
	if !s.out.spend(len(line) + 1) {
		return
	}
	text := strings.ToValidUTF8(string(line), "\ufffd")
	if cut {
		text += "…"
	}
	s.out.log.Log(context.Background(), s.level, text, "stream", s.name)
}

// spend takes n bytes from the cap. If they do not fit, nothing more will.
func (o *output) spend(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n <= o.left {
		o.left -= n
		return true
	}
	o.left = 0
	o.dropped += int64(n)
	return false
}

func (o *output) drop(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped += int64(n)
}

// close says how much was dropped. No stream is being copied any more.
func (o *output) close() {
	if o.dropped > 0 {
		o.log.Warn("output of the child was dropped", "bytes", o.dropped)
	}
}
