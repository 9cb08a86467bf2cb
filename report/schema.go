package report

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of the document. Its objects are open: it describes what version 1 says today and
// admits what it will say later.
func Schema() []byte { return slices.Clone(schema) }
