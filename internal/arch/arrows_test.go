package arch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// arrow says what the files of a package may import of this module. A pattern may end in "/...".
type arrow struct {
	from  string
	to    []string
	tests []string // what its test files may import on top, itself apart
}

// anything is every package of the module.
var anything = []string{"..."}

// arrows has a line for every package; the first that matches counts.
var arrows = []arrow{
	{"deadline", nil, nil},
	{"report", nil, []string{"report/reporttest"}},
	{"report/reporttest", []string{"report"}, nil},
	{"signals", nil, nil},
	{"resources", []string{"report", "deadline"}, nil},
	{"coordinator", []string{"resources", "report", "deadline"}, nil},
	{"transport", []string{"deadline"}, nil},
	{"transport/transporttest", []string{"transport", "deadline"}, []string{"transport/memory", "internal/..."}},
	{"transport/...", []string{"transport", "deadline", "internal/..."}, []string{"transport/transporttest"}},
	{"managed", []string{"coordinator", "resources", "report", "deadline", "signals", "transport", "internal/logq"},
		[]string{"managed/managedtest", "report/reporttest", "transport/...", "internal/..."}},
	{"managed/managedtest", []string{"managed", "coordinator", "resources", "report", "deadline", "signals", "transport", "transport/memory"},
		[]string{"report/reporttest", "internal/..."}},
	{"config", []string{"managed", "resources", "report", "deadline", "signals", "transport"},
		[]string{"transport/memory", "internal/..."}},
	{"internal/rabbittest", []string{"transport", "transport/rabbitmq", "deadline"}, []string{"internal/..."}},
	{"internal/...", []string{"deadline"}, []string{"internal/..."}},
	{"cmd/...", anything, nil},
	{"examples/...", anything, nil},
	{"benchmarks/...", anything, nil},
}

// foreign modules that only some packages may import, in test files too.
var foreign = []struct {
	module string
	in     []string
}{
	{"github.com/rabbitmq/amqp091-go", []string{"transport/rabbitmq", "internal/rabbittest"}},
	{"github.com/spf13/cobra", []string{"cmd/..."}},
	{"github.com/spf13/pflag", []string{"cmd/..."}},
}

// testSupport are packages that only test files may import.
var testSupport = []string{"internal/faultproxy", "internal/rabbittest", "managed/managedtest", "report/reporttest", "transport/transporttest"}

func importViolations(t *tree) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, f := range t.files {
		i := slices.IndexFunc(arrows, func(a arrow) bool { return in(f.dir, []string{a.from}) })
		if i < 0 {
			report("%s: package %s has no line in the table of arrows", t.at(f.syntax), f.dir)
			continue
		}
		may := arrows[i].to
		if f.test {
			may = slices.Concat(may, arrows[i].tests, []string{f.dir})
		}
		for _, spec := range f.syntax.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				report("%s: %v", t.at(spec), err)
				continue
			}
			if to, ok := t.sibling(path); ok {
				if !in(to, may) {
					report("%s: %s must not import %s", t.at(spec), f.dir, to)
				}
				if !f.test && in(to, testSupport) {
					report("%s: %s is for tests", t.at(spec), to)
				}
			}
			for _, rule := range foreign {
				if (path == rule.module || strings.HasPrefix(path, rule.module+"/")) && !in(f.dir, rule.in) {
					report("%s: %s must not import %s", t.at(spec), f.dir, path)
				}
			}
		}
	}
	return found
}

func TestArrowsPointOneWay(t *testing.T) {
	for _, violation := range importViolations(realTree(t)) {
		t.Error(violation)
	}
}

func TestArrowsThatPointBackAreFound(t *testing.T) {
	made := madeTree(t, map[string]string{
		"deadline/a.go":                "package deadline\nimport _ \"m/report\"",
		"report/a.go":                  "package report\nimport _ \"m/internal/logq\"",
		"report/a_test.go":             "package report_test\nimport _ \"m/report\"",
		"report/b_test.go":             "package report_test\nimport _ \"m/managed\"",
		"signals/a.go":                 "package signals\nimport (\n\t_ \"context\"\n\tclock \"m/deadline\"\n)\nvar _ = clock.Now",
		"resources/a.go":               "package resources\nimport _ \"m/coordinator\"\nimport _ \"m/report\"",
		"coordinator/a.go":             "package coordinator\nimport _ \"m/transport\"\nimport _ \"m/resources\"",
		"transport/a.go":               "package transport\nimport _ \"m/deadline\"\nimport _ \"m/report\"",
		"transport/memory/a.go":        "package memory\nimport _ \"m/transport/rabbitmq\"\nimport _ \"m/internal/x\"",
		"transport/rabbitmq/a.go":      "package rabbitmq\nimport _ \"github.com/rabbitmq/amqp091-go\"\nimport _ \"m/transport\"",
		"transport/rabbitmq/b.go":      "package rabbitmq\nimport _ \"m/internal/rabbittest\"",
		"transport/rabbitmq/b_test.go": "package rabbitmq\nimport _ \"m/internal/rabbittest\"\nimport _ \"m/transport/transporttest\"",
		"managed/a.go":                 "package managed\nimport _ \"m/transport/memory\"\nimport _ \"m/coordinator\"",
		"managed/a_test.go":            "package managed_test\nimport _ \"m/transport/memory\"\nimport _ \"github.com/rabbitmq/amqp091-go\"",
		"managed/managedtest/a.go":     "package managedtest\nimport _ \"m/transport/memory\"\nimport _ \"m/managed\"",
		"config/a.go":                  "package config\nimport _ \"github.com/spf13/cobra\"\nimport _ \"m/transport/rabbitmq\"",
		"internal/rabbittest/a.go":     "package rabbittest\nimport _ \"github.com/rabbitmq/amqp091-go\"",
		"internal/x/a.go":              "package x\nimport _ \"m/managed\"",
		"cmd/lastcall/a.go":            "package main\nimport _ \"m/managed\"\nimport _ \"github.com/spf13/cobra\"\nimport _ \"m/transport/rabbitmq\"",
		"cmd/lastcall/b.go":            "package main\nimport _ \"m/managed/managedtest\"",
		"cmd/lastcall/b_test.go":       "package main\nimport _ \"github.com/rabbitmq/amqp091-go/x\"",
		"util/a.go":                    "package util",
		"a.go":                         "package m",
	})
	want := []string{
		`a.go:1: package . has no line in the table of arrows`,
		`cmd/lastcall/b.go:2: managed/managedtest is for tests`,
		`cmd/lastcall/b_test.go:2: cmd/lastcall must not import github.com/rabbitmq/amqp091-go/x`,
		`config/a.go:2: config must not import github.com/spf13/cobra`,
		`config/a.go:3: config must not import transport/rabbitmq`,
		`coordinator/a.go:2: coordinator must not import transport`,
		`deadline/a.go:2: deadline must not import report`,
		`internal/x/a.go:2: internal/x must not import managed`,
		`managed/a.go:2: managed must not import transport/memory`,
		`managed/a_test.go:3: managed must not import github.com/rabbitmq/amqp091-go`,
		`report/a.go:2: report must not import internal/logq`,
		`report/b_test.go:2: report must not import managed`,
		`resources/a.go:2: resources must not import coordinator`,
		`signals/a.go:4: signals must not import deadline`,
		`transport/a.go:3: transport must not import report`,
		`transport/memory/a.go:2: transport/memory must not import transport/rabbitmq`,
		`transport/rabbitmq/b.go:2: internal/rabbittest is for tests`,
		`util/a.go:1: package util has no line in the table of arrows`,
	}
	if diff := cmp.Diff(want, importViolations(made)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
