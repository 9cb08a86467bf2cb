package managed

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// maxStackBytes caps all stacks of a report together.
const maxStackBytes = 64 << 10

// stackTaker takes the stacks of abandoned handlers, once, in its own goroutine: the profile stops the world and may be slow,
// so whoever needs it waits only as long as it can.
type stackTaker struct {
	once sync.Once
	done chan struct{}
	all  map[slotKey]string
}

type slotKey struct {
	queue string
	slot  int
}

func newStackTaker() *stackTaker { return &stackTaker{done: make(chan struct{})} }

// take begins to take the stacks, unless that was done before. It does not block.
func (t *stackTaker) take() {
	t.once.Do(func() {
		go func() { // ends when the profile is written
			defer close(t.done)
			var b bytes.Buffer
			if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
				return
			}
			t.all = slotStacks(b.String())
		}()
	})
}

// wait returns the stacks by slot, or nil if none were taken or they are not ready within patience.
func (t *stackTaker) wait(patience time.Duration) map[slotKey]string {
	begun := true
	t.once.Do(func() { begun = false })
	if !begun {
		return nil
	}
	timer := deadline.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.done:
		return t.all
	case <-timer.C:
		return nil
	}
}

var labelPattern = regexp.MustCompile(`"` + labelQueue + `":("(?:[^"\\]|\\.)*"),? ?"` + labelSlot + `":"(\d+)"`)

// workerFrame is the frame that only a worker's own goroutine has; goroutines that a handler started carry its labels too.
const workerFrame = "managed.(*worker).call"

// slotStacks reads a goroutine profile (debug=1) and returns the frames of every labelled worker that runs a handler, from
// the innermost one to the worker's own.
func slotStacks(profile string) map[slotKey]string {
	out := make(map[slotKey]string)
	for record := range strings.SplitSeq(profile, "\n\n") {
		m := labelPattern.FindStringSubmatch(record)
		if m == nil || !strings.Contains(record, workerFrame) {
			continue
		}
		queue, err := strconv.Unquote(m[1])
		if err != nil {
			continue
		}
		slot, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		out[slotKey{queue, slot}] = frames(record)
	}
	return out
}

func frames(record string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(record, "\n") {
		f := strings.Split(strings.TrimPrefix(line, "#"), "\t")
		if !strings.HasPrefix(line, "#\t") || len(f) < 3 {
			continue
		}
		name, _, _ := strings.Cut(f[2], "+0x")
		if strings.Contains(name, workerFrame) {
			break
		}
		where := f[len(f)-1]
		fmt.Fprintf(&b, "%s\n\t%s\n", name, where)
	}
	return b.String()
}

// assignStacks gives each abandoned entry the index of its stack, like stacks once.
func assignStacks(stacks map[slotKey]string, slots []slotKey) (texts []string, index []int) {
	known := make(map[string]int)
	total := 0
	for _, k := range slots {
		text, ok := stacks[k]
		if !ok || text == "" {
			index = append(index, -1)
			continue
		}
		i, seen := known[text]
		if !seen {
			if total+len(text) > maxStackBytes {
				index = append(index, -1)
				continue
			}
			total += len(text)
			i = len(texts)
			known[text] = i
			texts = append(texts, text)
		}
		index = append(index, i)
	}
	return texts, index
}
