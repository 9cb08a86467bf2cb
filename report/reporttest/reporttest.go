package reporttest

import (
	"bytes"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lastcall-go/lastcall/report"
)

// Check fails t, and names every problem, unless raw is a sealed report: valid against the schema, in agreement with itself
// (report.Check), with a digest that verifies, and the same bytes again after reading and writing. It returns the report, or
// nil if raw cannot be read.
func Check(t testing.TB, raw []byte) *report.ShutdownReport {
	t.Helper()
	if err := Validate(raw); err != nil {
		t.Errorf("report: schema: %v", err)
	}
	if err := report.VerifyDigest(raw); err != nil {
		t.Errorf("report: digest: %v", err)
	}
	d, err := report.Parse(raw)
	if err != nil {
		t.Errorf("report: parse: %v", err)
		return nil
	}
	for _, err := range report.Check(d) {
		t.Errorf("report: %v", err)
	}
	line := bytes.Count(bytes.TrimSpace(raw), []byte("\n")) == 0
	again, err := report.JSON(d)
	if line {
		again, err = report.Line(d)
	}
	if err != nil {
		t.Errorf("report: write: %v", err)
	} else if !bytes.Equal(again, raw) {
		t.Errorf("report: reading and writing changed it:\n%s\nbecame\n%s", raw, again)
	}
	return d
}

// Validate holds raw against the JSON Schema alone.
func Validate(raw []byte) error {
	schema, err := compiled()
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(report.Schema()))
	if err != nil {
		return nil, err
	}
	const url = "mem:shutdown-report.json"
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url)
})
