package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/gowebpki/jcs"
)

// maxStack is the length in bytes to which a sealed stack is cut.
const maxStack = 16 << 10

// ErrDigest reports a document whose digest is not that of its content.
var ErrDigest = errors.New("report: the digest is not that of the document: it was changed after it was sealed")

// Seal judges d, cleans its text, normalizes it, sets its digest, and returns the bytes that JSON gives for it from now on.
// d and all it points to must be the caller's own, and nothing may change it afterwards.
func Seal(d *ShutdownReport) ([]byte, error) {
	d.Schema = SchemaID
	clean(d)
	Judge(d)
	Normalize(d)
	open, err := canonical(d)
	if err != nil {
		return nil, err
	}
	d.Digest = digest(open)
	line, err := encode(d)
	if err != nil {
		return nil, err
	}
	return indent(line)
}

// digest names the SHA-256 of a document in its canonical form.
func digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// VerifyDigest recomputes the digest of a stored document from its bytes, so that fields this package does not know count. It
// returns ErrDigest if it differs or is missing, ErrTooLarge, or an error of reading the JSON. It says nothing on who sealed
// the document.
func VerifyDigest(raw []byte) error {
	if len(raw) > MaxSize {
		return ErrTooLarge
	}
	// The canonical form has no duplicate names, over which two readers could differ.
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return fmt.Errorf("report: canonical form: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &fields); err != nil {
		return fmt.Errorf("report: canonical form: %w", err)
	}
	var sealed string
	if err := json.Unmarshal(fields["digest"], &sealed); err != nil {
		return ErrDigest
	}
	delete(fields, "digest")
	open, err := encode(fields)
	if err != nil {
		return err
	}
	if canonical, err = jcs.Transform(open); err != nil {
		return fmt.Errorf("report: canonical form: %w", err)
	}
	if digest(canonical) != sealed {
		return ErrDigest
	}
	return nil
}

// clean is the last gate for text: what came from outside is redacted, and no string keeps what could act on a terminal.
func clean(d *ShutdownReport) {
	for _, text := range freeText(d) {
		*text = Redact(*text)
	}
	for i := range d.Stacks {
		d.Stacks[i] = RedactLines(d.Stacks[i], maxStack)
	}
	stacks := d.Stacks
	d.Stacks = nil
	cleanStrings(reflect.ValueOf(d).Elem())
	d.Stacks = stacks
}

// freeText lists the strings that may quote an error, a peer or a message.
func freeText(d *ShutdownReport) []*string {
	texts := []*string{&d.Trigger.Detail}
	addError := func(e *Error) {
		if e != nil {
			texts = append(texts, &e.Class, &e.Text)
		}
	}
	for i := range d.Triggers {
		texts = append(texts, &d.Triggers[i].Detail)
	}
	for i := range d.Phases {
		for j := range d.Phases[i].Actions {
			addError(d.Phases[i].Actions[j].Error)
		}
	}
	for i := range d.Resources {
		r := &d.Resources[i]
		addError(r.Error)
		for j := range r.Evidence {
			texts = append(texts, &r.Evidence[j].Detail)
		}
	}
	for i := range d.Subscriptions {
		for j := range d.Subscriptions[i].RequeueCauses {
			texts = append(texts, &d.Subscriptions[i].RequeueCauses[j].Class)
		}
	}
	for i := range d.Sessions {
		texts = append(texts, &d.Sessions[i].Text)
	}
	for i := range d.Unsettled {
		texts = append(texts, &d.Unsettled[i].Detail)
	}
	for i := range d.Findings {
		texts = append(texts, &d.Findings[i].Text)
	}
	return texts
}

// cleanStrings neutralises every string that v reaches.
func cleanStrings(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); neutralise(s, false) != s {
			v.SetString(neutralise(s, false))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			cleanStrings(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			cleanStrings(v.Index(i))
		}
	case reflect.Map:
		clean := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			clean.SetMapIndex(reflect.ValueOf(neutralise(it.Key().String(), false)), reflect.ValueOf(neutralise(it.Value().String(), false)))
		}
		v.Set(clean)
	case reflect.Struct:
		if v.Type() == timeType {
			return
		}
		for i := range v.NumField() {
			cleanStrings(v.Field(i))
		}
	}
}
