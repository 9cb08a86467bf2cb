//go:build unix

package managed

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", maxOutputLine)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                 {"", nil},
		"lines":                   {"one\ntwo\n", []string{"INFO stdout one", "INFO stdout two"}},
		"no newline at the end":   {"one\ntwo", []string{"INFO stdout one", "INFO stdout two"}},
		"empty lines":             {"\n\none\n", []string{"INFO stdout ", "INFO stdout ", "INFO stdout one"}},
		"carriage returns":        {"one\r\ntw\ro\r", []string{"INFO stdout one", "INFO stdout tw\ro"}},
		"no text":                 {"a\xff\xfeb\n", []string{"INFO stdout a\ufffdb"}},
		"a line that just fits":   {long + "\n", []string{"INFO stdout " + long}},
		"a line one too long":     {long + "y\nz\n", []string{"INFO stdout " + long + "…", "INFO stdout z", "WARN 1 output of the child was dropped"}},
		"one endless line":        {long + long, []string{"INFO stdout " + long + "…", "WARN 4096 output of the child was dropped"}},
		"as much as is logged":    {strings.Repeat(long[1:]+"\n", 16), slicesRepeat("INFO stdout "+long[1:], 16)},
		"one byte more":           {strings.Repeat(long[1:]+"\n", 16) + "\n", append(slicesRepeat("INFO stdout "+long[1:], 16), "WARN 1 output of the child was dropped")},
		"nothing after the limit": {strings.Repeat(long[1:]+"\n", 15) + long + "\nz\n", append(slicesRepeat("INFO stdout "+long[1:], 15), "WARN 4099 output of the child was dropped")},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by byte": iotest.OneByteReader, "by half": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			log := newLines()
			out := &output{log: slog.New(log), left: maxOutputDelivery}
			(&outputStream{out: out, name: "stdout"}).copy(reader(bytes.NewReader([]byte(c.text))))
			out.close()
			if diff := cmp.Diff(c.want, log.all()); diff != "" {
				t.Errorf("%s, read %s (-want +got):\n%s", name, how, diff)
			}
		}
	}
}

func slicesRepeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}
