package managed

import "fmt"

var (
	drainWords     = [...]string{"default", "auto", "hand_back", "finish_prefetched", "ordered"}
	onErrorWords   = [...]string{"default", "requeue", "reject"}
	duplicateWords = [...]string{"default", "hold", "hand_back", "allow"}
)

// String returns the mode in lower_snake, as configuration and report write it.
func (d Drain) String() string {
	if int(d) < len(drainWords) {
		return drainWords[d]
	}
	return fmt.Sprintf("Drain(%d)", uint8(d))
}

// String returns the policy in lower_snake, as configuration writes it.
func (d DuplicateStart) String() string {
	if int(d) < len(duplicateWords) {
		return duplicateWords[d]
	}
	return fmt.Sprintf("DuplicateStart(%d)", uint8(d))
}

// String returns the policy in lower_snake, as configuration writes it.
func (o OnError) String() string {
	if int(o) < len(onErrorWords) {
		return onErrorWords[o]
	}
	return fmt.Sprintf("OnError(%d)", uint8(o))
}
