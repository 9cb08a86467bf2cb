package resources

// stage is how far the end of a resource has been observed. The four flags of the report are read off it, so that a later
// flag cannot be true while an earlier one is false:
//
//	borrowed
//	owned ---> started ---> terminal
//	  |           |-------> succeeded
//	  +-----------+-- it may end by itself, without a beginning that anyone saw
type stage uint8

const (
	_ stage = iota
	stageBorrowed
	stageOwned
	stageStarted
	stageTerminal  // its end was observed, and it was not as it should be
	stageSucceeded // its end was observed, and it was
)

// next lists the legal edges. Borrowed is not ours to move, and an observed end is never rewritten.
var next = map[stage][]stage{
	stageOwned:   {stageStarted, stageTerminal, stageSucceeded},
	stageStarted: {stageTerminal, stageSucceeded},
}

// advance moves s along a legal edge and reports whether it did.
func (s *stage) advance(to stage) bool {
	for _, legal := range next[*s] {
		if legal == to {
			*s = to
			return true
		}
	}
	return false
}

func (s stage) owned() bool     { return s >= stageOwned }
func (s stage) started() bool   { return s >= stageStarted }
func (s stage) terminal() bool  { return s >= stageTerminal }
func (s stage) succeeded() bool { return s == stageSucceeded }
