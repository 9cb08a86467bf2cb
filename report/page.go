package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// page collects lines of text for a terminal of a width.
type page struct {
	strings.Builder
	width int
	color bool
}

// style is a colour; it only repeats what the words say.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (p *page) paint(s style, text string) string {
	if !p.color || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line writes one line without the blanks at its end.
func (p *page) line(text string) {
	p.WriteString(strings.TrimRight(loose(text), " "))
	p.WriteByte('\n')
}

const noBreak = "\u00a0"

// tight makes wrap keep s on one line; line undoes it.
func tight(s string) string { return strings.ReplaceAll(s, " ", noBreak) }

func loose(s string) string { return strings.ReplaceAll(s, noBreak, " ") }

func (p *page) heading(title, note string) {
	p.line("")
	p.line(p.paint(bold, title) + note)
}

// wrap writes text behind lead, which is painted in style s, and breaks it at blanks. What does not fit on the first line is
// indented.
func (p *page) wrap(s style, lead string, indent int, text string) {
	line, used := p.paint(s, lead), textWidth(lead)
	first := true
	for word := range strings.SplitSeq(text, " ") {
		w := textWidth(word)
		switch {
		case first:
		case used+1+w > p.width:
			p.line(line)
			line, used = strings.Repeat(" ", indent), indent
		default:
			line, used = line+" ", used+1
		}
		first = false
		line, used = line+word, used+w
	}
	p.line(line)
}

// textWidth is how many columns s takes.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is 2 for East Asian and emoji blocks, 1 for the rest. Marks that join what is before them count too: a column too
// many is harmless.
func runeWidth(r rune) int {
	switch {
	case r < 0x1100:
		return 1
	case r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// fit pads or cuts s to exactly width columns.
func fit(s string, width int) string {
	if w := textWidth(s); w <= width {
		return s + strings.Repeat(" ", width-w)
	}
	used, end := 0, 0
	for end < len(s) {
		r, size := utf8.DecodeRuneInString(s[end:])
		if used+runeWidth(r) > width-1 {
			break
		}
		used, end = used+runeWidth(r), end+size
	}
	return s[:end] + ellipsis + strings.Repeat(" ", max(width-1-used, 0))
}

// right puts s at the right end of width columns.
func right(s string, width int) string { return strings.Repeat(" ", max(width-textWidth(s), 0)) + s }

// span is a duration of us microseconds for people: three digits and a unit.
func span(us int64) string {
	if us < 0 {
		return "-" + span(-us)
	}
	switch {
	case us < 1_000:
		return strconv.FormatInt(us, 10) + " µs"
	case us < 10_000:
		return decimals(us, 1_000, 1) + " ms"
	case us < 999_500:
		return decimals(us, 1_000, 0) + " ms"
	case us < 10_000_000:
		return decimals(us, 1_000_000, 2) + " s"
	case us < 60_000_000:
		return decimals(us, 1_000_000, 1) + " s"
	case us < 3_600_000_000:
		return fmt.Sprintf("%dm%02ds", us/60_000_000, us/1_000_000%60)
	default:
		return fmt.Sprintf("%dh%02dm", us/3_600_000_000, us/60_000_000%60)
	}
}

// decimals is n/unit with at most digits decimals, none of them a trailing zero.
func decimals(n, unit int64, digits int) string {
	s := strconv.FormatFloat(float64(n)/float64(unit), 'f', digits, 64)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// thousands is n in groups of three.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural is "1 delivery", "3 deliveries".
func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}
