package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxSize is the largest document that Parse reads, in bytes.
const MaxSize = 16 << 20

// ErrTooLarge reports a document of more than MaxSize bytes.
var ErrTooLarge = fmt.Errorf("report: the document is larger than %d MiB", MaxSize>>20)

// SchemaError reports a document that is not of the schema this package reads.
type SchemaError struct {
	Got string // what the document says it is; empty if it says nothing
}

// Error names both schemas.
func (e *SchemaError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("report: the document names no schema: want %q", SchemaID)
	}
	return fmt.Sprintf("report: the document is of schema %s: want %q", Redact(fmt.Sprintf("%q", e.Got)), SchemaID)
}

// ParseError reports bytes that are not a document.
type ParseError struct {
	Offset int64 // where reading stopped, in bytes
	Err    error
}

// Error says where and why.
func (e *ParseError) Error() string {
	return fmt.Sprintf("report: not a shutdown report: at byte %d: %s", e.Offset, Redact(e.Err.Error()))
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

// JSON returns d as it is stored: indented by two spaces, ending in a newline. The same document gives the same bytes. It
// leaves d alone; nil slices and maps are written as empty ones.
func JSON(d *ShutdownReport) ([]byte, error) {
	line, err := Line(d)
	if err != nil {
		return nil, err
	}
	return indent(line)
}

// Line returns d on one line that ends in a newline: the same document as JSON without the white space, for a log or a pipe.
func Line(d *ShutdownReport) ([]byte, error) {
	c := Clone(d)
	Normalize(c)
	return encode(c)
}

// encode writes v compactly, with a newline at the end and without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("report: encode: %w", err)
	}
	return b.Bytes(), nil
}

func indent(line []byte) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(2 * len(line))
	if err := json.Indent(&b, line, "", "  "); err != nil {
		return nil, fmt.Errorf("report: indent: %w", err)
	}
	return b.Bytes(), nil
}

// Parse reads a document. Fields it does not know are ignored and missing ones are zero, so that it reads every later version
// 1. It returns ErrTooLarge, a *SchemaError or a *ParseError. It does not judge: see Check and VerifyDigest.
func Parse(raw []byte) (*ShutdownReport, error) {
	if len(raw) > MaxSize {
		return nil, ErrTooLarge
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	d := new(ShutdownReport)
	if err := dec.Decode(d); err != nil {
		// Another schema may well have other types: say that rather than where they differ.
		if schema, ok := schemaOf(raw); ok && schema != SchemaID {
			return nil, &SchemaError{Got: schema}
		}
		return nil, parseError(dec, err)
	}
	if d.Schema != SchemaID {
		return nil, &SchemaError{Got: d.Schema}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &ParseError{Offset: dec.InputOffset(), Err: errTrailing}
	}
	Normalize(d)
	return d, nil
}

var errTrailing = errors.New("there is more after the document")

func parseError(dec *json.Decoder, err error) *ParseError {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &ParseError{Offset: syntax.Offset, Err: err}
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &ParseError{Offset: mismatch.Offset, Err: err}
	}
	return &ParseError{Offset: dec.InputOffset(), Err: err}
}

// schemaOf reads the schema of a JSON object whose other fields may be anything.
func schemaOf(raw []byte) (schema string, ok bool) {
	var head struct {
		Schema string `json:"schema"`
	}
	err := json.Unmarshal(raw, &head)
	return head.Schema, err == nil
}

// Normalize replaces every nil slice and map of d by an empty one, so that the document says [] and {}, never null.
func Normalize(d *ShutdownReport) {
	if d.Service.Labels == nil {
		d.Service.Labels = map[string]string{}
	}
	list(&d.Triggers)
	list(&d.Phases)
	for i := range d.Phases {
		list(&d.Phases[i].Actions)
	}
	list(&d.Resources)
	for i := range d.Resources {
		list(&d.Resources[i].Evidence)
	}
	list(&d.Subscriptions)
	for i := range d.Subscriptions {
		list(&d.Subscriptions[i].RequeueCauses)
	}
	list(&d.Sessions)
	list(&d.Unsettled)
	list(&d.Stacks)
	list(&d.Findings)
	for i := range d.Findings {
		list(&d.Findings[i].Evidence)
	}
}

func list[T any](s *[]T) {
	if *s == nil {
		*s = []T{}
	}
}
