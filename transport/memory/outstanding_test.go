package memory

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestOutstanding holds outstanding against a map, over settlements in any order and with one delivery that stays.
func TestOutstanding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o outstanding
		model := make(map[uint64]*message)
		sent := uint64(0)
		room := rapid.IntRange(1, 40).Draw(t, "prefetch")
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			if len(model) < room && rapid.Bool().Draw(t, "send") {
				sent++
				model[sent] = &message{seq: sent}
				o.add(sent, model[sent])
				continue
			}
			tag := uint64(rapid.IntRange(0, int(sent)+1).Draw(t, "tag"))
			if len(model) > 0 && rapid.IntRange(0, 3).Draw(t, "hit") > 0 {
				tags := make([]uint64, 0, len(model))
				for known := range model {
					tags = append(tags, known)
				}
				slices.Sort(tags)
				tag = tags[len(tags)-1-rapid.IntRange(0, len(tags)-1).Draw(t, "newest")]
			}
			e := o.find(tag)
			if got, want := e != nil, model[tag] != nil; got != want {
				t.Fatalf("find(%d) found %t, want %t", tag, got, want)
			}
			if e != nil {
				if m := o.settle(e); m != model[tag] {
					t.Fatalf("tag %d settles message %d", tag, m.seq)
				}
				delete(model, tag)
			}
			if o.live != len(model) {
				t.Fatalf("%d live, want %d", o.live, len(model))
			}
			if len(o.entries) > 3*room+66 {
				t.Fatalf("%d entries for %d unsettled", len(o.entries), o.live)
			}
		}
		var want, got []uint64
		for tag := range model {
			want = append(want, tag)
		}
		slices.Sort(want)
		for _, m := range o.takeAll() {
			got = append(got, m.seq)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("left (-want +got):\n%s", diff)
		}
	})
}

func TestFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var model []int
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch n := rapid.IntRange(0, 9).Draw(t, "step"); {
			case n < 5:
				f.push(i)
				model = append(model, i)
			case n < 9 && len(model) > 0:
				if got := f.pop(); got != model[0] {
					t.Fatalf("pop returned %d, want %d", got, model[0])
				}
				model = model[1:]
			case n == 9:
				odd := func(v int) bool { return v%3 == 1 }
				f.remove(odd)
				model = slices.DeleteFunc(model, odd)
			}
			got := make([]int, 0, f.len())
			for i := range f.len() {
				got = append(got, f.at(i))
			}
			if !slices.Equal(got, model) {
				t.Fatalf("holds %v, want %v", got, model)
			}
		}
	})
}
