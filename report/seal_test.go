package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

func mustSeal(t testing.TB, d *report.ShutdownReport) []byte {
	t.Helper()
	raw, err := report.Seal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestSealGivesTheBytesOfJSON(t *testing.T) {
	d := abandonedHandler()
	raw := mustSeal(t, d)
	if diff := cmp.Diff(string(raw), string(mustJSON(t, d))); diff != "" {
		t.Errorf("(-sealed +JSON):\n%s", diff)
	}
	if again := mustSeal(t, d); !bytes.Equal(raw, again) {
		t.Errorf("sealed twice (-once +twice):\n%s", cmp.Diff(string(raw), string(again)))
	}
	line, err := report.Line(d)
	if err != nil {
		t.Fatal(err)
	}
	reporttest.Check(t, line)
}

// TestDigestIsRFC8785 seals documents full of what canonical forms disagree over. VerifyDigest computes by another way, from
// the bytes, with an independent implementation.
func TestDigestIsRFC8785(t *testing.T) {
	nasty := []string{"", "plain", "\"quoted\\\"", "<-chan & >", "line\u2028 \u2029", "発送 😀", "\x00\x01\x1f\x7f\u0080", "\b\f\n\r\t", "\xff\xfe broken", "\ufffd", "\ufb33 \U0001f600"}
	d := full(func(n int) string { return nasty[n%len(nasty)] })
	d.Service.Labels = map[string]string{"\ufb33": "1", "\U0001f600": "2", "a": "3", "B": "4", "é": "5", "\x1b": "6"} // in UTF-16, 😀 sorts before U+FB33
	if err := report.VerifyDigest(mustSeal(t, d)); err != nil {
		t.Error(err)
	}
	d.Deliveries.SinceStart.Received = 1<<64 - 1 // beyond what a double holds
	d.Budget.HardTUS, d.Budget.TotalUS = -1<<62, 1<<62+1
	if err := report.VerifyDigest(mustSeal(t, d)); err != nil {
		t.Errorf("with numbers that are no doubles: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.String(), 7, 7).Draw(t, "texts")
		d := full(func(n int) string { return texts[n%len(texts)] })
		d.Service.Labels = rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "labels")
		raw, err := report.Seal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.VerifyDigest(raw); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
	})
}

func TestVerifyDigest(t *testing.T) {
	sealed := mustSeal(t, abandonedHandler())
	edit := func(from, to string) []byte {
		t.Helper()
		if !bytes.Contains(sealed, []byte(from)) {
			t.Fatalf("nothing to edit: %q", from)
		}
		return bytes.Replace(sealed, []byte(from), []byte(to), 1)
	}
	differs := func(err error) bool { return errors.Is(err, report.ErrDigest) }
	unreadable := func(err error) bool { return err != nil && !errors.Is(err, report.ErrDigest) }
	verifies := func(err error) bool { return err == nil }
	var compact bytes.Buffer
	if err := json.Compact(&compact, sealed); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		raw []byte
		ok  func(error) bool
	}{
		"as sealed":                {sealed, verifies},
		"without white space":      {compact.Bytes(), verifies},
		"of a later version":       {newer(t, sealed), verifies},
		"a later version, changed": {bytes.Replace(newer(t, sealed), []byte(`"retried":7`), []byte(`"retried":8`), 1), differs},
		"a field removed":          {edit(`"recovered": false,`, ``), differs},
		"a verdict changed":        {edit(`"verdict": "unknown"`, `"verdict": "clean"`), differs},
		"a field added":            {edit(`"recovered"`, `"added": 1, "recovered"`), differs},
		"a field said twice":       {edit(`"recovered"`, `"completion": "graceful_completed", "recovered"`), unreadable},
		"no digest":                {edit(`"digest": "sha256:`, `"was": "sha256:`), differs},
		"a digest that is none":    {edit(`"digest": "sha256:`, `"digest": "`), differs},
		"not JSON":                 {sealed[:100], unreadable},
		"not an object":            {[]byte("[1]"), unreadable},
		"empty":                    {nil, unreadable},
		"too large":                {bytes.Repeat([]byte(" "), report.MaxSize+1), func(err error) bool { return errors.Is(err, report.ErrTooLarge) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := report.VerifyDigest(tc.raw); !tc.ok(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// newer is sealed as a later version would have: with a field nobody here knows.
func newer(t *testing.T, sealed []byte) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(sealed, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "digest")
	fields["retried"] = 7
	open, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(open)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	fields["digest"] = "sha256:" + hex.EncodeToString(sum[:])
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSealIsTheLastGate: a secret or an escape that reached any text of the document does not reach the bytes.
func TestSealIsTheLastGate(t *testing.T) {
	d := full(func(int) string { return "dial amqp://guest:hunter2@mq:5672/\x1b[31m\u202e" })
	d.Service, d.Broker, d.Config, d.ReportID = report.Service{}, report.Broker{}, report.ConfigInfo{}, ""
	d.Force.Cause, d.Resources[0].WithheldBy, d.Resources[1].WithheldBy = report.ForceAPI, "a handler", "" // names, which findings repeat
	raw := string(mustSeal(t, d))
	for _, bad := range []string{"\x1b", `\u001b`, "\u202e", `\u202e"`} {
		if i := strings.Index(raw, bad); i >= 0 && !strings.HasSuffix(raw[:i], `\`) {
			t.Errorf("%q in …%s", bad, raw[max(i-80, 0):i+10])
		}
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(raw), &fields); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{ // what only the application and the broker's names fill
		"name": true, "queue": true, "consumer_tag": true, "drain": true, "state": true, "kind": true, "phase": true, "graceful": true, "forced": true,
		"effect": true, "cause": true, "completion": true, "withheld_by": true, "transport": true, "end": true, "by": true, "delivery_tag": true,
		"message_id": true, "bucket": true, "settlement": true, "severity": true, "code": true, "subject": true, "evidence": true, "head": true,
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			if strings.Contains(v, "hunter2") && !names[name] {
				t.Errorf("%s holds a secret: %s", name, v)
			}
		case []any:
			for _, e := range v {
				walk(name, e)
			}
		case map[string]any:
			for name, e := range v {
				walk(name, e)
			}
		}
	}
	walk("document", fields)
}

func BenchmarkSeal(b *testing.B) {
	d := abandonedHandler()
	u := d.Unsettled[0]
	d.Unsettled = nil
	for i := range 1000 {
		u.DeliveryTag, u.MessageID = strconv.Itoa(i), "0193a2b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
		d.Unsettled = append(d.Unsettled, u)
	}
	for b.Loop() {
		raw, err := report.Seal(d)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(raw)))
	}
}
