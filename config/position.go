package config

import (
	"strconv"
	"strings"
)

// node is where one key stands, and where what is below it stands. Offsets are bytes from the start of the text.
type node struct {
	key   int // the key's last part, where it is first named; for an element of an array: the element
	value int // the value; for a table with a header: the key
	table map[string]*node
	elems []*node
}

func (n *node) child(key string, at int) *node {
	if c := n.table[key]; c != nil {
		return c
	}
	if n.table == nil {
		n.table = make(map[string]*node)
	}
	c := &node{key: at, value: at}
	n.table[key] = c
	return c
}

// last is the table that a header or dotted key through n goes on in: an array's latest element, or n itself.
func (n *node) last() *node {
	if len(n.elems) > 0 {
		return n.elems[len(n.elems)-1]
	}
	return n
}

// positions finds every key and value of a text that the TOML parser, which keeps no positions, has accepted. For such a text
// the tree has the shape of the decoded document. Any other text gives some tree.
func positions(text string) *node {
	s := &scanner{text: text}
	root := &node{}
	table := root
	for {
		s.space(true)
		switch s.peek() {
		case 0:
			return root
		case '[':
			table = s.header(root)
		default:
			s.assign(table)
		}
	}
}

type scanner struct {
	text string
	pos  int
}

// peek returns the byte at hand, 0 at the end of the text.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// step moves on by one byte, if there is one.
func (s *scanner) step() { s.pos = min(s.pos+1, len(s.text)) }

// skip moves on if c is at hand.
func (s *scanner) skip(c byte) bool {
	if s.pos == len(s.text) || s.text[s.pos] != c {
		return false
	}
	s.pos++
	return true
}

// space skips blanks, and with lines set line ends and comments as well.
func (s *scanner) space(lines bool) {
	for {
		switch c := s.peek(); {
		case c == ' ' || c == '\t':
			s.pos++
		case lines && (c == '\n' || c == '\r'):
			s.pos++
		case lines && c == '#':
			s.until("\n")
		default:
			return
		}
	}
}

// until moves to the first of the given bytes, or to the end.
func (s *scanner) until(stops string) {
	if i := strings.IndexAny(s.text[s.pos:], stops); i >= 0 {
		s.pos += i
	} else {
		s.pos = len(s.text)
	}
}

// header reads [a.b] or [[a.b]] and returns the table that follows.
func (s *scanner) header(root *node) *node {
	s.pos++
	array := s.skip('[')
	n := root
	for more := true; more; {
		name, at := s.name()
		more = s.skip('.')
		n = n.last().child(name, at)
		if !more && array {
			n.elems = append(n.elems, &node{key: at, value: at})
		}
	}
	s.skip(']')
	if array {
		s.skip(']')
	}
	return n.last()
}

// assign reads key = value into the table n.
func (s *scanner) assign(n *node) {
	from := s.pos
	for more := true; more; {
		name, at := s.name()
		more = s.skip('.')
		n = n.child(name, at)
	}
	if s.skip('=') {
		s.value(n)
	}
	if s.pos == from { // no TOML
		s.step()
	}
}

// name reads one part of a key, with the blanks around it.
func (s *scanner) name() (name string, at int) {
	s.space(false)
	at = s.pos
	switch c := s.peek(); c {
	case '"', '\'':
		name = s.quoted(c)
	default:
		for c := s.peek(); c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'; c = s.peek() {
			s.pos++
		}
		name = s.text[at:s.pos]
	}
	s.space(false)
	return name, at
}

// value reads one value into n.
func (s *scanner) value(n *node) {
	s.space(true)
	n.value = s.pos
	switch c := s.peek(); c {
	case '"', '\'':
		if delimiter := strings.Repeat(string(c), 3); strings.HasPrefix(s.text[s.pos:], delimiter) {
			s.multiline(c, delimiter)
		} else {
			s.quoted(c)
		}
	case '[':
		s.pos++
		for s.more(']') {
			e := &node{key: s.pos}
			n.elems = append(n.elems, e)
			s.value(e)
		}
	case '{':
		s.pos++
		for s.more('}') {
			s.assign(n)
		}
	default:
		s.until(",]}#\n")
		if s.pos == n.value { // no TOML
			s.step()
		}
	}
}

// more moves to the next element and reports whether there is one before the closing bracket, which it skips.
func (s *scanner) more(closing byte) bool {
	s.space(true)
	if s.skip(',') {
		s.space(true)
	}
	return s.pos < len(s.text) && !s.skip(closing)
}

// quoted reads a string on one line and returns what it stands for.
func (s *scanner) quoted(quote byte) string {
	s.pos++
	var b strings.Builder
	for s.pos < len(s.text) && !s.skip(quote) {
		c := s.text[s.pos]
		s.pos++
		if c == '\\' && quote == '"' {
			b.WriteString(s.escape())
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escape reads what follows a backslash.
func (s *scanner) escape() string {
	c := s.peek()
	s.step()
	if i := strings.IndexByte("btnfre", c); i >= 0 && c != 0 {
		return "\b\t\n\f\r\x1b"[i : i+1]
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 || len(s.text)-s.pos < digits {
		return string(rune(c))
	}
	code, _ := strconv.ParseUint(s.text[s.pos:s.pos+digits], 16, 32)
	s.pos += digits
	return string(rune(code))
}

// multiline skips a string between triple quotes, whose text may end in one or two quotes of its own.
func (s *scanner) multiline(quote byte, delimiter string) {
	s.pos += len(delimiter)
	for s.pos < len(s.text) && !strings.HasPrefix(s.text[s.pos:], delimiter) {
		if quote == '"' {
			s.skip('\\')
		}
		s.step()
	}
	s.pos = min(s.pos+len(delimiter), len(s.text))
	for range 2 {
		s.skip(quote)
	}
}
