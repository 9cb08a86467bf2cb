package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// digest hashes the effective configuration in a canonical form: JSON with fields in their declared order and maps sorted. A
// URL marshals without its password.
func (f *File) digest() string {
	plain := *f
	plain.Name, plain.Digest, plain.Warnings = "", "", nil
	text, err := json.Marshal(plain)
	if err != nil {
		panic("lastcall: a configuration cannot be marshalled: " + err.Error()) // its types do not allow it
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
