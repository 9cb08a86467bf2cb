package report

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"time"
)

// NewID returns a UUIDv7 (RFC 9562) for the instant at: 48 bits of Unix milliseconds, 12 bits of the fraction below them, 62
// random bits. IDs of later instants sort after those of earlier ones, down to a quarter of a microsecond.
func NewID(at time.Time) string {
	var id [16]byte
	_, _ = rand.Read(id[8:]) // never fails: crypto/rand ends the process instead
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	fraction := uint16(at.Nanosecond() % int(time.Millisecond) * 4096 / int(time.Millisecond))
	binary.BigEndian.PutUint16(id[6:], 7<<12|fraction)
	id[8] = id[8]&0x3f | 0x80

	text := make([]byte, 36)
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text)
}

const idPattern = `[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`

var idForm = regexp.MustCompile(`^` + idPattern + `$`)
