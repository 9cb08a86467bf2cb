package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documentationViolations looks for packages without a package comment in doc.go and exported names without a comment. For
// constants and variables the comment of their group will do, and one behind them; fields and methods of interfaces are left
// to judgement.
func documentationViolations(t *tree) []string {
	var found []string
	packages := map[string]bool{} // by whether doc.go has a package comment
	for _, f := range t.files {
		if f.test {
			continue
		}
		packages[f.dir] = packages[f.dir] || path.Base(f.name) == "doc.go" && f.syntax.Doc.Text() != ""
		for _, decl := range f.syntax.Decls {
			for _, name := range undocumented(decl) {
				found = append(found, t.at(name)+": "+name.Name+" has no comment")
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if !packages[dir] && !in(dir, []string{"examples/..."}) {
			found = append(found, dir+": no doc.go with a package comment")
		}
	}
	return found
}

// undocumented returns the exported names of a declaration that have no comment.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Name.IsExported() && decl.Doc.Text() == "" && (decl.Recv == nil || receiver(decl).IsExported()) {
			return []*ast.Ident{decl.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				alone := !decl.Lparen.IsValid() && decl.Doc.Text() != ""
				if !alone && spec.Doc.Text() == "" {
					names = append(names, spec.Name)
				}
			case *ast.ValueSpec:
				if decl.Doc.Text() == "" && spec.Doc.Text() == "" && spec.Comment.Text() == "" {
					names = append(names, spec.Names...)
				}
			}
		}
		return slices.DeleteFunc(names, func(name *ast.Ident) bool { return !name.IsExported() })
	}
	return nil
}

// receiver returns the name of a method's type.
func receiver(method *ast.FuncDecl) *ast.Ident {
	expr := method.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x
		default:
			return &ast.Ident{NamePos: token.NoPos, Name: "_"}
		}
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	for _, violation := range documentationViolations(realTree(t)) {
		t.Error(violation)
	}
}

func TestWhatIsNotDocumentedIsFound(t *testing.T) {
	made := madeTree(t, map[string]string{
		"a/doc.go":           "// Package a is documented.\npackage a",
		"b/doc.go":           "package b",
		"b/b.go":             "// Package b is documented elsewhere.\npackage b",
		"c/c.go":             "package c",
		"d/d_test.go":        "package d\n\nfunc TestX() {}",
		"examples/x/main.go": "// Command x is one file.\npackage main",
		"a/a.go": `package a

func Bare() {}

// Told is.
func Told() {}

func hidden() {}

type Type struct{ Field int }

func (Type) Method()       {}
func (*Type) Pointer()     {}
func (hiddenType) Method() {}

type hiddenType struct{}

type Generic[K, V any] struct{}

func (*Generic[K, V]) Method() {}

// A group of types documents none of them.
type (
	One int
	// Two is.
	Two int
)

const Alone = 1

// A group of values documents them all.
const (
	A = iota
	B
)

var (
	C int // C is.
	D, e int
	// F is.
	F int
)

//go:generate true
func Directive() {}
`,
	})
	want := []string{
		"a/a.go:3: Bare has no comment",
		"a/a.go:10: Type has no comment",
		"a/a.go:12: Method has no comment",
		"a/a.go:13: Pointer has no comment",
		"a/a.go:18: Generic has no comment",
		"a/a.go:20: Method has no comment",
		"a/a.go:24: One has no comment",
		"a/a.go:29: Alone has no comment",
		"a/a.go:39: D has no comment",
		"a/a.go:45: Directive has no comment",
		"b: no doc.go with a package comment",
		"c: no doc.go with a package comment",
	}
	if diff := cmp.Diff(want, documentationViolations(made)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
