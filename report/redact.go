package report

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the length in bytes to which Redact cuts.
const MaxText = 512

const (
	hidden   = "***"
	ellipsis = "…"
)

// Redact makes text from outside fit for a report: on one line, without secrets it recognises (see the package's tests for
// the forms), without control characters, terminal escapes and marks that reorder text, valid UTF-8, at most MaxText bytes.
// It hides too much rather than too little. Redacting twice changes nothing.
func Redact(text string) string {
	return concealAndCut(strings.TrimSpace(neutralise(text, false)), MaxText)
}

// RedactLines is Redact for text of several lines, such as a stack: it keeps newlines and tabs, and cuts at limit bytes.
// A limit of zero or less means MaxText.
func RedactLines(text string, limit int) string {
	if limit <= 0 {
		limit = MaxText
	}
	return concealAndCut(neutralise(text, true), limit)
}

// concealAndCut repeats itself until nothing changes, because what is hidden in one form may have stood between the parts of
// another. Each round hides more, so a few are enough.
func concealAndCut(s string, limit int) string {
	for range 8 {
		next := cut(conceal(s), limit)
		if next == s {
			break
		}
		s = next
	}
	return s
}

// neutralise replaces what could act on a terminal, or deceive a reader, by its escape as Go writes it, and white space by a
// blank unless lines are kept.
func neutralise(s string, keepLines bool) string {
	clean := func(r rune) bool {
		return r != utf8.RuneError && unicode.IsGraphic(r) || keepLines && (r == '\n' || r == '\t')
	}
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for _, r := range s {
		switch {
		case clean(r):
			b.WriteRune(r)
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError:
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// cut shortens s to at most limit bytes of valid UTF-8.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)
	// net/url quotes what it could not parse, and parts of it, which may be parts of a password.
	unparsed = regexp.MustCompile(`(?s)\b(parse|invalid port|invalid URL escape|invalid character) \\*"(?:[^"\\]|\\.)*(?:"|\\*$)`)
	header   = regexp.MustCompile(`(?i)\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\*["']?\s*(?::|=>?)\s*`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer)\s+(\S+)`)
	webToken = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*`)
	secretly = regexp.MustCompile(`(?i)(?:(?:password|passwd|passphrase|pwd|secret|token|credentials?|signature|` +
		`(?:api|access|account|private|shared)[ _-]?key)[\w.-]*|\b(?:pass|auth|sig))\\*["']?\s*(?:=>?|:|%3D|%3A)\s*|\bkey\s*=\s*`)
)

// conceal hides the secrets.
func conceal(s string) string {
	if !suspicious(s) {
		return s
	}
	s = privateKey.ReplaceAllString(s, "(private key withheld)")
	s = unparsed.ReplaceAllString(s, "$1 (withheld)")
	s = concealURLs(s, "://", "@")
	s = concealURLs(s, "%3A%2F%2F", "%40")
	s = replaceAfter(header, s, lineEnd)
	s = bearer.ReplaceAllStringFunc(s, func(m string) string {
		parts := bearer.FindStringSubmatch(m)
		return parts[1] + " " + hide(parts[2])
	})
	s = webToken.ReplaceAllString(s, hidden)
	return replaceAfter(secretly, s, valueEnd)
}

// suspicious is a cheap test that every text with a recognisable secret passes; most text fails it.
func suspicious(s string) bool {
	return strings.ContainsAny(s, `:=%"`) || strings.Contains(s, "eyJ") || strings.Contains(s, "-----BEGIN ") || indexFold(s, "bearer") >= 0
}

// hide replaces a secret, unless it is what is left of one that was hidden and cut before.
func hide(secret string) string {
	if strings.Trim(secret, "*…") == "" {
		return secret
	}
	return hidden
}

// replaceAfter hides what follows each match of lead; end finds the secret's bounds from the end of the match.
func replaceAfter(lead *regexp.Regexp, s string, end func(s string, from int) (start, stop int)) string {
	var b strings.Builder
	at := 0
	for at < len(s) {
		loc := lead.FindStringIndex(s[at:])
		if loc == nil {
			break
		}
		start, stop := end(s, at+loc[1])
		b.WriteString(s[at:start])
		b.WriteString(hide(s[start:stop]))
		at = stop
	}
	if at == 0 {
		return s
	}
	return b.String() + s[at:]
}

func lineEnd(s string, from int) (start, stop int) {
	if i := strings.IndexByte(s[from:], '\n'); i >= 0 {
		return from, from + i
	}
	return from, len(s)
}

// valueEnd returns the bounds of the value that begins at from: what stands in quotes, escaped or not, or in brackets, or the
// run up to white space. What is not closed reaches to the end.
func valueEnd(s string, from int) (start, stop int) {
	open := from
	for open < len(s) && s[open] == '\\' {
		open++
	}
	if open < len(s) && strings.IndexByte(quotes, s[open]) >= 0 {
		return open + 1, closingQuote(s, s[open], open+1, open-from)
	}
	if from < len(s) {
		if i := strings.IndexByte("[{(", s[from]); i >= 0 {
			if end := strings.IndexByte(s[from:], "]})"[i]); end >= 0 {
				return from + 1, from + end
			}
			return from + 1, len(s)
		}
	}
	if i := strings.IndexFunc(s[from:], unicode.IsSpace); i >= 0 {
		return from, from + i
	}
	return from, len(s)
}

const quotes = "\"'`"

// closingQuote returns where the quoted text that begins at from ends, before the backslashes of its closing quote; level is
// how many backslashes stood before the opening one, so that a quotation inside a quotation is understood.
func closingQuote(s string, quote byte, from, level int) int {
	backslashes := 0
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '\\':
			backslashes++
			continue
		case quote:
			if backslashes%(2*(level+1)) == level {
				return i - level
			}
		}
		backslashes = 0
	}
	return len(s)
}

// concealURLs hides the password in every URL of s, written raw or percent-encoded. A password may hold any character that a
// careless person left unescaped: it reaches to the last "@" before white space, or before the closing quote if a quote
// stands before the scheme. Without "@" it is what stands where a port should.
func concealURLs(s, mark, at string) string {
	var b strings.Builder
	for {
		i := indexFold(s, mark)
		if i < 0 {
			return b.String() + s
		}
		scheme := i
		for scheme > 0 && isScheme(s[scheme-1]) {
			scheme--
		}
		from := i + len(mark)
		end := urlEnd(s, scheme, from)
		b.WriteString(s[:from])
		b.WriteString(concealAuthority(s[scheme:i], s[from:end], at))
		s = s[end:]
	}
}

func concealAuthority(scheme, rest, at string) string {
	last := max(strings.LastIndexByte(rest, '@'), lastIndexFold(rest, at))
	if last < 0 {
		return concealPort(rest)
	}
	if colon, width := firstColon(rest[:last]); colon >= 0 {
		colon += width
		return rest[:colon] + hide(rest[colon:last]) + rest[last:]
	}
	// A name alone is a user for AMQP; elsewhere it is as likely a token, unless this is a path that holds an "@".
	if strings.HasPrefix(strings.ToLower(scheme), "amqp") || strings.ContainsAny(rest[:last], "/?#") {
		return rest
	}
	return hide(rest[:last]) + rest[last:]
}

// concealPort hides what stands where a port should and is none.
func concealPort(rest string) string {
	colon, width := firstColon(rest)
	if colon < 0 || strings.HasPrefix(rest, "[") || strings.ContainsAny(rest[:colon], "/?#") {
		return rest
	}
	colon += width
	port := rest[colon:]
	after := strings.TrimLeft(port, "0123456789")
	if after == "" || strings.HasPrefix(after, ellipsis) || len(after) < len(port) && strings.ContainsAny(after[:1], "/?#,;:)]}>\\%"+quotes) {
		return rest
	}
	return rest[:colon] + hide(port)
}

// firstColon finds the first ":" of s, raw or percent-encoded; at is -1 if there is none.
func firstColon(s string) (at, width int) {
	raw, encoded := strings.IndexByte(s, ':'), indexFold(s, "%3A")
	if encoded >= 0 && (raw < 0 || encoded < raw) {
		return encoded, 3
	}
	return raw, 1
}

// urlEnd returns where the URL whose scheme begins at scheme ends.
func urlEnd(s string, scheme, from int) int {
	if scheme > 0 && strings.IndexByte(quotes, s[scheme-1]) >= 0 {
		level := 0
		for scheme-2-level >= 0 && s[scheme-2-level] == '\\' {
			level++
		}
		return closingQuote(s, s[scheme-1], from, level)
	}
	if i := strings.IndexFunc(s[from:], unicode.IsSpace); i >= 0 {
		return from + i
	}
	return len(s)
}

func isScheme(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

func indexFold(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(sub)], sub) {
			return i
		}
	}
	return -1
}

func lastIndexFold(s, sub string) int {
	for i := len(s) - len(sub); i >= 0; i-- {
		if strings.EqualFold(s[i:i+len(sub)], sub) {
			return i
		}
	}
	return -1
}
