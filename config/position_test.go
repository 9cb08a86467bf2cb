package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestPositions(t *testing.T) {
	const text = "\"a b\" = 1 # c = 2\n" +
		"'q' . \"\\u00e9\\t\" = '''x = 1\n[y]''''\n" +
		"[ t . u ]\r\n" +
		"m = \"\"\"\\\"\"\"[no]\"\"\"\"\"\n" +
		"n = { x = [ 1, { z = '#]}' } ], # c\n y.w = 1979-05-27 07:32:00 }\n" +
		"[[s]]\nk = [\n 'a', # ]\n \"b\\\\\",\n]\n" +
		"[s.deep]\nz=true\n[[s]]\nk = []"
	var values map[string]any
	if _, err := toml.Decode(text, &values); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	list("", positions(text), source{"", text}, got)
	want := map[string]string{
		`"a b"`: "1:1 1:9", "q": "2:1 2:1", `q."é\t"`: "2:7 2:20",
		"t": "4:3 4:3", "t.u": "4:7 4:7", "t.u.m": "5:1 5:5",
		"t.u.n": "6:1 6:5", "t.u.n.x": "6:7 6:11", "t.u.n.x[0]": "6:13 6:13", "t.u.n.x[1]": "6:16 6:16", "t.u.n.x[1].z": "6:18 6:22",
		"t.u.n.y": "7:2 7:2", "t.u.n.y.w": "7:4 7:8",
		"s": "8:3 8:3", "s[0]": "8:3 8:3", "s[0].k": "9:1 9:5", "s[0].k[0]": "10:2 10:2", "s[0].k[1]": "11:2 11:2",
		"s[0].deep": "13:4 13:4", "s[0].deep.z": "14:1 14:3",
		"s[1]": "15:3 15:3", "s[1].k": "16:1 16:5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("key and value (-want +got):\n%s", diff)
	}
}

// list writes down where every key and every value below n stands.
func list(path string, n *node, s source, out map[string]string) {
	note := func(path string, n *node) {
		line, col := s.at(n.key)
		vline, vcol := s.at(n.value)
		out[path] = fmt.Sprintf("%d:%d %d:%d", line, col, vline, vcol)
		list(path, n, s, out)
	}
	for key, child := range n.table {
		note(join(path, key), child)
	}
	for i, elem := range n.elems {
		note(fmt.Sprintf("%s[%d]", path, i), elem)
	}
}

// FuzzPositions holds the tree against the TOML library: for every text that it accepts, the same keys and elements are found,
// each at its place. Any other text ends too.
func FuzzPositions(f *testing.F) {
	for _, seed := range []string{"", "a=1", "[a]\nb.c='x'", "[[a]]\n[[a]]\nb=[[1],{c=2}]", "a={b=\"\\\"}\",c=''}", "a=\"\"\"x\"\"\"\"", "[",
		"a=[", "a={", "a=[}", "[a.", "\"\\x61\\e\\U0001F600\"=1", "a = [1, # ]\n]\n", "\xef\xbb\xbfa=1", "[a]\n[a.b]\nc=1\n[[a.d]]\n[a.d.e]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root := positions(text)
		var values map[string]any
		if strings.HasPrefix(text, "\ufeff") || !utf8.ValidString(text) { // Parse takes the mark off
			return
		}
		if _, err := toml.Decode(text, &values); err != nil {
			return
		}
		same(t, "", root, values)
	})
}

func same(t *testing.T, path string, n *node, v any) {
	switch v := v.(type) {
	case map[string]any:
		if diff := cmp.Diff(slices.Sorted(maps.Keys(v)), slices.Sorted(maps.Keys(n.table))); diff != "" {
			t.Fatalf("keys of %q (-library +tree):\n%s", path, diff)
		}
		for key := range v {
			same(t, join(path, key), n.table[key], v[key])
		}
	case []map[string]any:
		elements(t, path, n, len(v))
		for i := range v {
			same(t, fmt.Sprintf("%s[%d]", path, i), n.elems[i], v[i])
		}
	case []any:
		elements(t, path, n, len(v))
		for i := range v {
			same(t, fmt.Sprintf("%s[%d]", path, i), n.elems[i], v[i])
		}
	}
}

func elements(t *testing.T, path string, n *node, want int) {
	if len(n.elems) != want {
		t.Fatalf("%q has %d elements in the tree, %d in the library", path, len(n.elems), want)
	}
}
