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

	// maxInput is how much of a text is looked at: a panic may print megabytes, and a report is sealed inside its deadline.
	maxInput = 64 << 10
)

// Redact makes text from outside fit for a report: on one line, without secrets it recognises (see the package's tests for
// the forms), without control characters, terminal escapes and marks that reorder text, valid UTF-8, at most MaxText bytes.
// It hides too much rather than too little. Redacting twice changes nothing.
func Redact(text string) string {
	if isWord(text) {
		return text
	}
	return concealAndCut(strings.TrimSpace(neutralise(head(text), false)), MaxText)
}

// isWord reports whether s is one short plain word, or empty: most of what a report holds, and no form of a secret. A web token
// is such a word too, but for its beginning.
func isWord(s string) bool {
	if len(s) > 64 || strings.Contains(s, "eyJ") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// RedactLines is Redact for text of several lines, such as a stack: it keeps newlines and tabs, and cuts at limit bytes.
// A limit of zero or less means MaxText.
func RedactLines(text string, limit int) string {
	if limit <= 0 {
		limit = MaxText
	}
	return concealAndCut(neutralise(head(text), true), limit)
}

// head cuts what is too long even to look at, at white space, so that no secret loses the part by which it is recognised.
func head(s string) string {
	if len(s) <= maxInput {
		return s
	}
	s = s[:maxInput]
	return s[:max(strings.LastIndexAny(s, " \t\n"), 0)] + ellipsis
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
	bearer   = regexp.MustCompile(`(?i)\b(bearer)\s+(\S+)`)
	webToken = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*`)
)

// conceal hides the secrets. Each form is looked for only where a cheap test says that it may be there.
func conceal(s string) string {
	if strings.Contains(s, "-----BEGIN ") {
		s = privateKey.ReplaceAllString(s, "(private key withheld)")
	}
	if strings.Contains(s, `parse `) || strings.Contains(s, `invalid `) {
		s = unparsed.ReplaceAllString(s, "$1 (withheld)")
	}
	s = concealURLs(s, "://", "@")
	s = concealURLs(s, "%3a%2f%2f", "%40")
	s = concealValues(s)
	if indexFold(s, "bearer") >= 0 {
		s = bearer.ReplaceAllStringFunc(s, func(m string) string {
			parts := bearer.FindStringSubmatch(m)
			return parts[1] + " " + hide(parts[2])
		})
	}
	if strings.Contains(s, "eyJ") {
		s = webToken.ReplaceAllString(s, hidden)
	}
	return s
}

// hide replaces a secret, unless it is what is left of one that was hidden and cut before.
func hide(secret string) string {
	if strings.Trim(secret, "*…") == "" {
		return secret
	}
	return hidden
}

// concealValues hides what stands behind the name of a secret and a "=", "=>" or ":", raw or percent-encoded.
func concealValues(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); i++ {
		width := separator(s[i:])
		if width == 0 {
			continue
		}
		form := secretName(s[:i], s[i] == '=')
		if form == public {
			continue
		}
		from := i + width
		for from < len(s) && isBlank(s[from]) {
			from++
		}
		start, stop := from, len(s)
		if form == secretValue {
			start, stop = valueEnd(s, from)
		} else if end := strings.IndexByte(s[from:], '\n'); end >= 0 {
			stop = from + end
		}
		b.WriteString(s[done:start])
		b.WriteString(hide(s[start:stop]))
		done, i = stop, max(stop-1, i)
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// separator is the length of the separator that s begins with, 0 if there is none.
func separator(s string) int {
	switch {
	case strings.HasPrefix(s, "=>"):
		return 2
	case s[0] == '=' || s[0] == ':':
		return 1
	case len(s) >= 3 && s[0] == '%' && s[1] == '3' && strings.IndexByte("aAdD", s[2]) >= 0:
		return 3
	}
	return 0
}

// secrecy is how much of what follows a name is secret.
type secrecy uint8

const (
	public secrecy = iota
	secretValue
	secretLine
)

// secretName judges the name that before ends in, with a quote or blanks behind it. assigned says that a "=" follows.
func secretName(before string, assigned bool) secrecy {
	end := len(before)
	for end > 0 && isBlank(before[end-1]) {
		end--
	}
	if end > 0 && strings.IndexByte(quotes, before[end-1]) >= 0 {
		end--
	}
	for end > 0 && before[end-1] == '\\' {
		end--
	}
	start := end
	for start > 0 && isNameByte(before[start-1]) && end-start < 64 {
		start--
	}
	name := lower(before[start:end])
	last := name[strings.LastIndexAny(name, "_-.")+1:]
	squeezed := squeeze.Replace(name)
	if name == "key" && start > 0 && before[start-1] == ' ' { // "api key"
		word := before[strings.LastIndexByte(before[:start-1], ' ')+1 : start-1]
		squeezed = lower(word) + squeezed
	}
	switch {
	case last == "authorization" || last == "cookie":
		return secretLine
	case last == "pass" || last == "auth" || last == "sig" || assigned && last == "key":
		return secretValue
	}
	for _, part := range secretParts {
		if strings.Contains(squeezed, part) {
			return secretValue
		}
	}
	return public
}

var secretParts = []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "signature",
	"apikey", "accesskey", "accountkey", "privatekey", "sharedkey"}

var squeeze = strings.NewReplacer("_", "", "-", "", ".", "")

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
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
	low, done := lower(s), 0
	for {
		i := strings.Index(low[done:], mark)
		if i < 0 {
			return b.String() + s[done:]
		}
		i += done
		scheme := i
		for scheme > done && isScheme(s[scheme-1]) {
			scheme--
		}
		from := i + len(mark)
		end := urlEnd(s, scheme, from)
		b.WriteString(s[done:from])
		b.WriteString(concealAuthority(s[scheme:i], s[from:end], at))
		done = end
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
	raw, encoded := strings.IndexByte(s, ':'), indexFold(s, "%3a")
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

// indexFold is strings.Index for a sub in lower case, and a text in any.
func indexFold(s, sub string) int { return strings.Index(lower(s), sub) }

func lastIndexFold(s, sub string) int { return strings.LastIndex(lower(s), sub) }

// lower is s with its ASCII letters in lower case, and so of the same length.
func lower(s string) string {
	i := 0
	for i < len(s) && (s[i] < 'A' || s[i] > 'Z') {
		i++
	}
	if i == len(s) {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if b[i] >= 'A' && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}
