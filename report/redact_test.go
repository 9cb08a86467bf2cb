package report_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/report"
)

func TestRedact(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		// What has no secret stays as it is.
		{"dial tcp 10.0.0.1:5672: connect: connection refused", "dial tcp 10.0.0.1:5672: connect: connection refused"},
		{`Exception (403) Reason: "username or password not allowed"`, `Exception (403) Reason: "username or password not allowed"`},
		{"signal: killed", "signal: killed"},
		{"http://collector:4317: timeout", "http://collector:4317: timeout"},
		{`Post "http://collector:4318/v1/traces": EOF`, `Post "http://collector:4318/v1/traces": EOF`},
		{"amqp://mq:5672/vh, amqp://[::1]:5672", "amqp://mq:5672/vh, amqp://[::1]:5672"},
		{"https://host/path?mail=a@b.example", "https://host/path?mail=a@b.example"},
		{"passive: true", "passive: true"},
		{"author: Bob", "author: Bob"},
		{"発送 ✓", "発送 ✓"},

		// URLs: user, host, port and vhost stay.
		{"amqp://guest:hunter2@mq:5672/vh", "amqp://guest:***@mq:5672/vh"},
		{"amqps://guest@mq:5672/vh", "amqps://guest@mq:5672/vh"},
		{"https://ghp_0123@host/x", "https://***@host/x"},
		{`dial "amqp://guest:p@ss/w?rd#1@mq/": no`, `dial "amqp://guest:***@mq/": no`},
		{"amqp://guest:p%40ss@mq/ failed", "amqp://guest:***@mq/ failed"},
		{`dial "amqp://guest:p ss\"w@mq/": no`, `dial "amqp://guest:***@mq/": no`},
		{`said \"amqp://guest:p\\\"w@mq/\": no`, `said \"amqp://guest:***@mq/\": no`},
		{"amqp://guest:secret", "amqp://guest:***"},
		{"amqp://guest:77secret", "amqp://guest:***"},
		{"amqp%3A%2F%2Fguest%3Ahunter2%40mq%2Fvh", "amqp%3A%2F%2Fguest%3A***%40mq%2Fvh"},
		{"amqp%3A%2F%2Fguest%3Ahunter:2%40mq", "amqp%3A%2F%2Fguest%3A***%40mq"},
		{`said \"amqp://guest:p\\\"w@mq/\" to bob@x`, `said \"amqp://guest:***@mq/\" to bob@x`},
		{`"AMQP://guest:p w@mq", "s3://id:k y@bucket"`, `"AMQP://guest:***@mq", "s3://id:***@bucket"`},
		{"amqp%3a%2f%2fguest:hunter2@mq", "amqp%3a%2f%2fguest:***@mq"},
		{"a amqp://u:p1@h b amqp://u:p2@h c", "a amqp://u:***@h b amqp://u:***@h c"},

		// What net/url could not parse is not echoed, nor are its parts.
		{`parse "amqp://guest:p%zz@mq/": invalid URL escape "%zz"`, `parse (withheld): invalid URL escape (withheld)`},
		{`parse "amqp://guest:p#ss@mq/": invalid port ":p" after host`, `parse (withheld): invalid port (withheld) after host`},
		{`mq: invalid port ":p" after host`, `mq: invalid port (withheld) after host`},
		{`config: parse \"amqp://g:p\": no`, `config: parse (withheld)`},

		// Names and values.
		{"host=db password=hunter2 user=app", "host=db password=*** user=app"},
		{`{"user":"app","password":"hunter2","port":5432}`, `{"user":"app","password":"***","port":5432}`},
		{`{"password":"a\"b","port":1}`, `{"password":"***","port":1}`},
		{`{\"password\":\"a\\\"b\",\"port\":1}`, `{\"password\":\"***\",\"port\":1}`},
		{"{User:app Password:hunter2}", "{User:app Password:***"},
		{"DB_PASSWORD='two words' rest", "DB_PASSWORD='***' rest"},
		{"client_secret=abc&x=y rest", "client_secret=*** rest"},
		{"X-Api-Key: abc rest", "X-Api-Key: *** rest"},
		{"AccountKey=abc==;x", "AccountKey=***"},
		{"api key: abc, routing key: orders.new", "api key: *** routing key: orders.new"},
		{"token => abc", "token => ***"},
		{"tokens:[a b] c", "tokens:[***] c"},
		{"password%3Dhunter2 rest", "password%3D*** rest"},
		{`password="never closed`, `password="***`},
		{"https://h/p?key=abc", "https://h/p?key=***"},

		// Headers, tokens, keys.
		{`Authorization: Basic Z3Vlc3Q6Z3Vlc3Q= and more`, `Authorization: ***`},
		{`map[Authorization:[Digest username="x"] Accept:[y]]`, `map[Authorization:***`},
		{"Set-Cookie: sid=abc; Path=/", "Set-Cookie: ***"},
		{"got bearer abc.def, retrying", "got bearer *** retrying"},
		{"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig here", "jwt *** here"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- x", "(private key withheld) x"},
		{"-----BEGIN PRIVATE KEY-----\nMIIE", "(private key withheld)"},

		// Terminals and readers.
		{"a\x1b[31mred\x1b]0;t\a\x7f", `a\x1b[31mred\x1b]0;t\a\x7f`},
		{"one\ntwo\r\n\tthree ", "one two   three"},
		{"evil\u202etxt.exe \u200b \u0085", `evil\u202etxt.exe \u200b \u0085`},
		{"broken \xff\xfe", "broken \ufffd\ufffd"},
	} {
		if got := report.Redact(tc.text); got != tc.want {
			t.Errorf("%q\n became %q\n   want %q", tc.text, got, tc.want)
		}
	}
}

func TestRedactCuts(t *testing.T) {
	got := report.Redact(strings.Repeat("é", report.MaxText))
	if want := strings.Repeat("é", (report.MaxText-3)/2) + "…"; got != want {
		t.Errorf("%d bytes, want %d: %q", len(got), len(want), got)
	}
	if got := report.Redact(strings.Repeat("x", report.MaxText)); len(got) != report.MaxText || strings.Contains(got, "…") {
		t.Errorf("what fits was cut: %q", got)
	}
	// A secret is hidden before the text is cut, not after, when it would no longer look like one.
	got = report.Redact("amqp://guest:" + strings.Repeat("p", 2*report.MaxText) + "@mq")
	if want := "amqp://guest:***@mq"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRedactHuge: of a text too long to look at, nothing after the part that was looked at comes out.
func TestRedactHuge(t *testing.T) {
	huge := "panic: password=" + strings.Repeat("p", 65_000) + " amqp://guest:12345" + strings.Repeat("6", 5_000) + "@mq"
	if got, want := report.Redact(huge), "panic: password=*** …"; !strings.HasPrefix(got, "panic: password=***") || strings.Contains(got, "12345") {
		t.Errorf("%q, want about %q", got, want)
	}
	if got := report.Redact(strings.Repeat("6", 100_000)); got != "…" {
		t.Errorf("one word without end: %q", got)
	}
}

func BenchmarkRedact(b *testing.B) {
	for name, text := range map[string]string{
		"plain":   "handler did not return",
		"dial":    `dial "amqp://guest:hunter2@mq:5672/vh": dial tcp 10.0.0.1:5672: connect: connection refused`,
		"hostile": strings.Repeat(`A://"%3A%2F%2F:token=`, 3000),
		"64 KiB":  strings.Repeat(`{"user":"app","password":"hunter2","port":5432} `, 2000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				report.Redact(text)
			}
		})
	}
}

func TestRedactLines(t *testing.T) {
	got := report.RedactLines("goroutine 1:\n\tmain.go:1\x1b\npassword=hunter2\nAuthorization: x y\nend", 1000)
	if want := "goroutine 1:\n\tmain.go:1\\x1b\npassword=***\nAuthorization: ***\nend"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := report.RedactLines(strings.Repeat("x", 600), 0); len(got) != report.MaxText {
		t.Errorf("zero means %d, got %d", report.MaxText, len(got))
	}
}

// forms are texts that hold a secret. Where the secret stands in quotes it is quoted as Go does; elsewhere it has no blanks.
var forms = []struct {
	format string
	encode func(string) string
	quoted bool
}{
	{"dial amqp://guest:%s@mq:5672/vh: refused", nil, false},
	{"dial amqp://guest:%s@mq:5672/vh: refused", url.QueryEscape, false},
	{"amqp%%3A%%2F%%2Fguest%%3A%s%%40mq%%2Fvh", url.QueryEscape, false},
	{`Get "https://app:%s@host/path": EOF`, strconv.Quote, true},
	{`parse "amqp://guest:%s@mq/": net/url: invalid userinfo`, strconv.Quote, true},
	{`parse "amqp://guest:x@mq/": invalid port ":%s" after host`, strconv.Quote, true},
	{"user=app password=%s host=db", nil, false},
	{`{"user":"app","client_secret":"%s","n":1}`, strconv.Quote, true},
	{`api_key='%s' x`, func(s string) string { return strconv.Quote(strings.ReplaceAll(s, "'", "")) }, true},
	{"https://h/p?x=1&token=%s", url.QueryEscape, false},
	{"Authorization: Basic %s", nil, false},
	{"header map[Authorization:[Bearer %s]]", nil, false},
	{"got bearer %s, retrying", nil, false},
	{"Cookie: sid=%s; x=y", nil, false},
}

// FuzzRedact plants a secret in every form: it never comes out, whatever comes out is safe and short, and it stays as it is.
func FuzzRedact(f *testing.F) {
	for _, secret := range []string{"hunter2-x", "p@ss?w%rd", "a:b/c#d", `qu"o\te`, "p%40%3A%2F", "***…", "ünï", "x@y@z", "://:@", "\\\\\"x\"", "77777", "a;b,c&d", "[x]{y}(z)"} {
		f.Add(secret, "")
		f.Add(secret, "noise password: ")
	}
	f.Fuzz(func(t *testing.T, secret, noise string) {
		safe(t, report.Redact(noise+secret))
		if utf8.RuneCountInString(secret) < 5 || strings.ContainsFunc(secret, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == utf8.RuneError }) {
			return
		}
		for _, form := range forms {
			planted := secret
			if form.encode != nil {
				planted = form.encode(secret)
			}
			if form.quoted {
				planted = planted[1 : len(planted)-1]
			}
			if strings.Contains(fmt.Sprintf(form.format, "*** (withheld)"), planted) {
				continue // it says nothing that the form does not say
			}
			got := report.Redact(fmt.Sprintf(form.format, planted))
			safe(t, got)
			if strings.Contains(got, planted) {
				t.Errorf("%q came out of %q: %q", planted, form.format, got)
			}
		}
	})
}

func safe(t *testing.T, got string) {
	t.Helper()
	if !utf8.ValidString(got) || len(got) > report.MaxText || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		t.Errorf("not fit for a report: %q", got)
	}
	if again := report.Redact(got); again != got {
		t.Errorf("redacted twice: %q became %q", got, again)
	}
}

func TestRedactHolds(t *testing.T) {
	fragments := rapid.SampledFrom([]string{"amqp://", "%3A%2F%2F", "@", ":", "u:p", "password=", `"`, `\"`, "***", "…", " ", "\n", "é", "\x1b", "Bearer ", "Authorization: ",
		"token", "[", "]", "parse ", `parse "`, "host:1", strings.Repeat("x", 250), "eyJabcdefgh", "-----BEGIN PRIVATE KEY-----", "%40", "\\", "/", "key ="})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(fragments, 0, 12).Draw(rt, "fragments"), "")
		got := report.Redact(text)
		if again := report.Redact(got); again != got {
			rt.Fatalf("%q\n became %q\n   then %q", text, got, again)
		}
	})
}
