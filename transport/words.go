package transport

import "fmt"

var (
	verbNames    = [...]string{"", "ack", "requeue", "reject"}
	proofNames   = [...]string{"", "window", "reply", "receipt"}
	endNames     = [...]string{"", "close_ok", "peer_close", "peer_reset", "cut", "silent", "consumer_cancelled", "protocol"}
	partyNames   = [...]string{"", "us", "peer"}
	declareNames = [...]string{"default", "passive", "classic", "quorum"}
)

func word(names []string, i uint8, kind string) string {
	if int(i) < len(names) && (i > 0 || names[0] != "" || kind == "Party") {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

// String returns the verb in lower_snake.
func (v Verb) String() string { return word(verbNames[:], uint8(v), "Verb") }

// String returns the proof in lower_snake.
func (p Proof) String() string { return word(proofNames[:], uint8(p), "Proof") }

// String returns the end in lower_snake, as the report writes it.
func (k EndKind) String() string { return word(endNames[:], uint8(k), "EndKind") }

// String returns "us", "peer" or "".
func (p Party) String() string { return word(partyNames[:], uint8(p), "Party") }

// String returns the declaration in lower_snake.
func (d Declare) String() string { return word(declareNames[:], uint8(d), "Declare") }
