package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// decoder fills a File from a decoded document by the File's own tags, and collects what is wrong. It does so itself because
// the TOML library matches keys whatever their case, takes a bare number for a time.Duration, and reports neither all problems
// nor where they are.
type decoder struct {
	source
	problems []Problem
	at       map[string]int    // where each key stands, by path
	origin   map[string]string // the variable or flag that a value came from, by path
	bad      map[string]bool   // the paths with a problem: one each is enough
}

// problem records what is wrong with the key at path. A path that does not stand in the file is blamed on the nearest table
// around it that does.
func (d *decoder) problem(path, what, change string) {
	if d.bad[path] {
		return
	}
	d.bad[path] = true
	d.problems = append(d.problems, d.describe(path, what, change))
}

// twice records that one thing is said by two keys. What else is wrong with either is still worth saying.
func (d *decoder) twice(path, key, other string) {
	d.problems = append(d.problems, d.describe(path, key+" and "+other+" are both given", "keep one of them"))
}

func (d *decoder) describe(path, what, change string) Problem {
	p := Problem{Source: d.name, Key: path, What: what, Change: change}
	if from, ok := d.origin[path]; ok {
		p.Source = from
		return p
	}
	for ; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if at, ok := d.at[path]; ok {
			p.Line, p.Col = d.source.at(at)
			break
		}
	}
	return p
}

// field is one key of a table.
type field struct {
	key     string
	index   int
	value   reflect.Value
	seconds bool // the key says its unit: whole seconds
	env     string
}

// fields lists the keys of a table, in order. A key with a twin in seconds is listed twice.
func fields(table reflect.Value) []field {
	var out []field
	for i := range table.NumField() {
		tag := table.Type().Field(i).Tag
		key := tag.Get("toml")
		if key == "-" {
			continue
		}
		out = append(out, field{key: key, index: i, value: table.Field(i), env: tag.Get("env")})
		if twin := tag.Get("seconds"); twin != "" {
			out = append(out, field{key: twin, index: i, value: table.Field(i), seconds: true})
		}
	}
	return out
}

func keys(list []field) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].key
	}
	return out
}

func join(path, key string) string {
	if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		key = echo(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// table decodes values into a struct. A key that was probably meant as another one is reported and then read as that one, so
// that what is wrong below it comes out too and nothing is called missing because of a slip.
func (d *decoder) table(path string, n *node, values map[string]any, into reflect.Value) {
	known := fields(into)
	given := make(map[int]string)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		child := n.table[key]
		if child == nil {
			child = &node{}
		}
		here := join(path, key)
		d.at[here] = child.key
		i := slices.IndexFunc(known, func(f field) bool { return f.key == key })
		if i < 0 {
			word := d.unknown(path, here, key, keys(known))
			if _, twice := values[word]; word == "" || twice {
				continue
			}
			i = slices.IndexFunc(known, func(f field) bool { return f.key == word })
			here = join(path, word)
			d.at[here] = child.key
		}
		f := known[i]
		if twin, ok := given[f.index]; ok {
			d.twice(here, f.key, twin)
		}
		given[f.index] = f.key
		d.value(here, child, values[key], f)
	}
}

// unknown reports an unknown key and returns the known one that was probably meant, if there is one.
func (d *decoder) unknown(path, here, key string, known []string) string {
	table := "at the top"
	if path != "" {
		table = "in [" + path + "]"
		if strings.HasPrefix(path, "subscription") {
			table = "in [[subscription]]"
		}
	}
	what := fmt.Sprintf("unknown key %s %s", echo(key), table)
	word, ok := nearest(key, known)
	if ok && strings.EqualFold(word, key) {
		what += " (case counts)"
	}
	if ok {
		d.problem(here, what, fmt.Sprintf("write %q", word))
		return word
	}
	if table, ok := home(key); ok {
		d.problem(here, what, "move it to "+table)
	} else {
		d.problem(here, what, "remove it, or use one of: "+strings.Join(known, ", "))
	}
	return ""
}

// home returns the table that has the key.
func home(key string) (string, bool) {
	sections := reflect.ValueOf(defaults())
	for _, f := range fields(sections) {
		table, shown := f.value, "["+f.key+"]"
		if table.Kind() == reflect.Slice {
			table, shown = reflect.Zero(table.Type().Elem()), "[["+f.key+"]]"
		}
		if slices.Contains(keys(fields(table)), key) {
			return shown, true
		}
	}
	return "", false
}

// value decodes one value into a field.
func (d *decoder) value(path string, n *node, v any, f field) {
	mismatch := func(change string) { d.problem(path, fmt.Sprintf("%s is %s", f.key, kindOf(v)), change) }
	switch into := f.value.Addr().Interface().(type) {
	case *Duration:
		if f.seconds {
			d.wholeSeconds(path, v, f, into)
			return
		}
		if s, ok := v.(string); ok {
			d.text(path, s, f)
		} else if n, ok := v.(int64); ok && n > 0 {
			mismatch(fmt.Sprintf(`write it with its unit: "%ds" or "%dms"`, n, n))
		} else {
			mismatch(`write a number with its unit in quotes, such as "10s"`)
		}
	case *int:
		n, ok := v.(int64)
		if !ok {
			mismatch("write a whole number without quotes")
			return
		}
		if int64(int(n)) != n {
			d.problem(path, fmt.Sprintf("%s is too large", f.key), "write a smaller number")
			return
		}
		*into = int(n)
	case *bool:
		b, ok := v.(bool)
		if !ok {
			mismatch("write true or false without quotes")
			return
		}
		*into = b
	case *[]string:
		*into = d.list(path, n, v, f.key)
	case *map[string]string:
		table, ok := v.(map[string]any)
		if !ok {
			mismatch(fmt.Sprintf(`write a table of strings: %s = { name = "text" }`, f.key))
			return
		}
		*into = d.labels(path, n, table)
	case *map[string]any:
		table, ok := v.(map[string]any)
		if !ok {
			mismatch(fmt.Sprintf("write a table: [subscription.%s] below its [[subscription]]", f.key))
			return
		}
		*into = d.arguments(path, n, table)
	case *[]Subscription:
		*into = d.subscriptions(path, n, v)
	default:
		if f.value.Kind() == reflect.Struct {
			table, ok := v.(map[string]any)
			if !ok {
				mismatch(fmt.Sprintf("write a table: [%s]", f.key))
				return
			}
			d.table(path, n, table, f.value)
			return
		}
		s, ok := v.(string)
		if !ok {
			mismatch("write a string in quotes")
			return
		}
		d.text(path, s, f)
	}
}

// text puts a string, from wherever, into a field that is written as one.
func (d *decoder) text(path, s string, f field) {
	if u, ok := f.value.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if u.UnmarshalText([]byte(s)) != nil {
			d.problem(path, fmt.Sprintf("%s is %s, no duration", f.key, echo(s)), `write a number with its unit, such as "10s", "750ms" or "24h"`)
		}
		return
	}
	f.value.SetString(s)
}

func (d *decoder) wholeSeconds(path string, v any, f field, into *Duration) {
	n, ok := v.(int64)
	switch {
	case !ok:
		d.problem(path, fmt.Sprintf("%s is %s", f.key, kindOf(v)),
			fmt.Sprintf(`write a whole number of seconds, or %s with a unit, such as "1500ms"`, strings.TrimSuffix(f.key, "_secs")))
	case n < 1 || n > int64(deadline.MaxTotal/time.Second):
		d.problem(path, fmt.Sprintf("%s is %d", f.key, n), fmt.Sprintf("write whole seconds from 1 to %d", deadline.MaxTotal/time.Second))
	default:
		*into = Duration(n) * Duration(time.Second)
	}
}

func (d *decoder) list(path string, n *node, v any, key string) []string {
	elems, ok := v.([]any)
	if !ok {
		d.problem(path, fmt.Sprintf("%s is %s", key, kindOf(v)),
			fmt.Sprintf(`write an array of strings, the program and its arguments: %s = ["./program", "argument"]`, key))
		return nil
	}
	out := make([]string, 0, len(elems))
	for i, e := range elems {
		here := path + "[" + strconv.Itoa(i) + "]"
		if i < len(n.elems) {
			d.at[here] = n.elems[i].value
		}
		s, ok := e.(string)
		if !ok {
			d.problem(here, fmt.Sprintf("element %d of %s is %s", i+1, key, kindOf(e)), "write a string in quotes")
			d.bad[path] = true
		}
		out = append(out, s)
	}
	return out
}

func (d *decoder) labels(path string, n *node, table map[string]any) map[string]string {
	out := make(map[string]string, len(table))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		v, here := table[key], d.place(path, n, key)
		s, ok := v.(string)
		if !ok {
			d.problem(here, fmt.Sprintf("label %s is %s", echo(key), kindOf(v)), "write a string in quotes")
		}
		out[key] = s
	}
	return out
}

func (d *decoder) arguments(path string, n *node, table map[string]any) map[string]any {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		v, here := table[key], d.place(path, n, key)
		switch v.(type) {
		case string, int64, bool:
		default:
			d.problem(here, fmt.Sprintf("argument %s is %s", echo(key), kindOf(v)), "write a string, a whole number, true or false")
		}
	}
	return table
}

// place notes where a free key stands and returns its path.
func (d *decoder) place(path string, n *node, key string) string {
	here := join(path, key)
	if child := n.table[key]; child != nil {
		d.at[here] = child.key
	}
	return here
}

func (d *decoder) subscriptions(path string, n *node, v any) []Subscription {
	var tables []map[string]any
	switch v := v.(type) {
	case []map[string]any:
		tables = v
	case []any: // written in line
		for _, e := range v {
			table, ok := e.(map[string]any)
			if !ok {
				d.problem(path, "subscription holds "+kindOf(e), "write each subscription as a table: [[subscription]]")
				return nil
			}
			tables = append(tables, table)
		}
	default:
		d.problem(path, "subscription is "+kindOf(v), "write [[subscription]], with two brackets: there may be several")
		return nil
	}
	out := make([]Subscription, len(tables))
	for i, table := range tables {
		here := path + "[" + strconv.Itoa(i) + "]"
		elem := &node{}
		if i < len(n.elems) {
			elem = n.elems[i]
			d.at[here] = elem.key
		}
		out[i] = defaultSubscription()
		d.table(here, elem, table, reflect.ValueOf(&out[i]).Elem())
	}
	return out
}

// kindOf names the kind of a TOML value.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "a bare number"
	case float64:
		return "a bare number with a fraction"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	default:
		return "an array"
	}
}
