package config

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that is written with its unit: "750ms", "1m30s". A bare number is an error, zero included.
type Duration time.Duration

// UnmarshalText reads a number with a unit. It returns a *DurationError for anything else.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if last := len(text) - 1; err != nil || text[last] >= '0' && text[last] <= '9' { // ParseDuration takes a bare "0"
		return &DurationError{Text: string(text)}
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText writes the duration as [Duration.String] does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes the duration as time.Duration does, without the zeros at its end: "24h", not "24h0m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if t := strings.TrimSuffix(s, "0s"); strings.HasSuffix(t, "m") {
		s = t
	}
	if t := strings.TrimSuffix(s, "0m"); strings.HasSuffix(t, "h") {
		s = t
	}
	return s
}

// DurationError reports a text that is no duration.
type DurationError struct{ Text string }

// Error quotes the text.
func (e *DurationError) Error() string {
	return fmt.Sprintf("%s is not a duration with a unit", echo(e.Text))
}
