package config

import (
	"net/url"
	"strconv"
	"strings"
)

// URL is a broker's address and may hold a password: convert it to a string to use it, print it with String, which every fmt
// verb, encoding/json and log/slog do.
type URL string

// String names scheme, user, host, port and virtual host, and nothing else.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	parsed, fault := u.parse()
	if fault != "" {
		return "(unreadable URL)"
	}
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path, RawPath: parsed.RawPath}
	if name := parsed.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// GoString is String.
func (u URL) GoString() string { return strconv.Quote(u.String()) }

// MarshalText is String.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// parse returns the parts of a usable address, or what is wrong with it, in words that hold nothing of it.
func (u URL) parse() (*url.URL, string) {
	parsed, err := url.Parse(string(u))
	if err != nil { // its text holds the URL
		return nil, "cannot be read as a URL"
	}
	if parsed.Scheme != "amqp" && parsed.Scheme != "amqps" {
		return nil, "does not begin with amqp:// or amqps://"
	}
	// An unescaped '/', '?' or '#' in a password ends the authority early: what looks like host, port and path is part of it.
	if _, rest, _ := strings.Cut(string(u), "://"); strings.LastIndexByte(rest, '@') > strings.IndexAny(rest+"/", "/?#") {
		return nil, "has an @ behind its host"
	}
	if parsed.Hostname() == "" {
		return nil, "names no host"
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, "names a port outside 1 to 65535"
		}
	}
	return parsed, ""
}

const urlForm = "write amqp://user:password@host:5672/vhost, reserved characters in it percent-encoded"
