package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unfinished finds marks of work that was put off, in any kind of file.
func unfinished(files []*file) []string {
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	mark := regexp.MustCompile(`\b(` + strings.Join(marks, "|") + `)\b`)
	var out []string
	for _, f := range files {
		if !slices.ContainsFunc(marks, func(m string) bool { return bytes.Contains(f.text, []byte(m)) }) {
			continue // the expression takes a hundred times longer
		}
		for i, line := range bytes.Split(f.text, []byte("\n")) {
			if found := mark.Find(line); found != nil {
				out = append(out, fmt.Sprintf("%s:%d: %s", f.path, i+1, found))
			}
		}
	}
	return out
}

func TestNothingIsPutOff(t *testing.T) {
	none(t, unfinished(sources(t)))
	require.Equal(t, []string{"a.md:2: TO" + "DO"},
		unfinished([]*file{text("a.md", "fine, mktemp fileXXXXXX\nTO"+"DO: more")}))
}

// unexplained finds skipped tests without a reason, and tests that wait for time to pass: such a wait needs a name and
// a comment of its own with the purpose.
func unexplained(files []*file) []string {
	var out []string
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			fn, _ := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, _ := sel.X.(*ast.Ident)
				switch name := sel.Sel.Name; {
				case x == nil:
				case name == "SkipNow" || name == "Skip" && len(call.Args) == 0:
					if slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
						out = append(out, f.at(n.Pos())+": skipped without a reason")
					}
				case name == "Sleep" && x.Name == "time" && f.test() && !bubble(f):
					if fn == nil || fn.Doc == nil || strings.HasPrefix(fn.Name.Name, "Test") {
						out = append(out, f.at(n.Pos())+": a test that waits for time to pass")
					}
				}
				return true
			})
		}
	}
	return out
}

// bubble reports whether f has a clock of its own, under which sleeping takes no time.
func bubble(f *file) bool { return f.importName("testing/synctest") != "" }

func TestSkippedTestsSayWhy(t *testing.T) {
	none(t, unexplained(goFiles(sources(t), true)))
	body := func(imports, body string) []*file {
		return []*file{parse(t, "a_test.go", "package a\nimport ("+imports+")\nfunc f() { "+body+" }")}
	}
	require.Len(t, unexplained(body("", "t.Skip(); b.SkipNow()")), 2)
	require.Len(t, unexplained(body(`"time"`, "time.Sleep(1)")), 1)
	require.Empty(t, unexplained(body(`"time"; "testing/synctest"`, "time.Sleep(1); t.Skip(`no root`); r.Skip()")))
	settle := "package a\nimport `time`\n// settle outlasts the clock's tick.\nfunc settle() { time.Sleep(1) }"
	require.Empty(t, unexplained([]*file{parse(t, "a_test.go", settle)}))
}

// variables finds state of a package: everything a var declaration holds that is not an error, an assertion of a type
// or a constant for which Go has no constants (bytes, a value of the standard library made by a call without side
// effects). The linker sets those of internal/buildinfo.
func variables(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.test() || within(f.dir(), testFolders()) || f.dir() == "internal/buildinfo" {
			continue
		}
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					embedded := gen.Doc != nil && strings.Contains(docSource(gen.Doc), "//go:embed ")
					if name.Name == "_" || embedded || i < len(spec.Values) && fixed(spec.Values[i]) {
						continue
					}
					out = append(out, fmt.Sprintf("%s: package variable %s", f.at(name.Pos()), name.Name))
				}
			}
		}
	}
	return out
}

func docSource(g *ast.CommentGroup) string {
	var all strings.Builder
	for _, c := range g.List {
		all.WriteString(c.Text + "\n")
	}
	return all.String()
}

// fixed reports whether a value is an error, or a string as bytes.
func fixed(value ast.Expr) bool {
	if sel, ok := value.(*ast.SelectorExpr); ok {
		return strings.HasPrefix(sel.Sel.Name, "Err") // another package's
	}
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		x, _ := fun.X.(*ast.Ident)
		return x != nil && (x.Name == "errors" && fun.Sel.Name == "New" || x.Name == "fmt" && fun.Sel.Name == "Errorf")
	case *ast.ArrayType:
		_, literal := call.Args[0].(*ast.BasicLit)
		return literal
	}
	return false
}

func TestPackagesHaveNoState(t *testing.T) {
	none(t, variables(goFiles(sources(t), false)))
	require.Empty(t, variables([]*file{parse(t, "a.go", "package a\nvar (\n_ I = 1\nErrA = errors.New(`a`)\n"+
		"errB = fmt.Errorf(`b`)\nErrC = c.ErrC\nmagic = []byte(`TIDE`)\n)\n//go:embed x\nvar page string\n")}))
	require.Len(t, variables([]*file{parse(t, "a.go", "package a\nvar x, y = 1, f()\nvar table = map[int]int{}\n")}), 3)
}

// magic finds init functions outside programs, which run because of an import, and packages with a meaningless name.
func magic(files []*file) []string {
	var out []string
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && f.ast.Name.Name != "main" {
				out = append(out, f.at(fn.Pos())+": init")
			}
		}
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base"}, name) {
			out = append(out, f.path+": package "+name)
		}
	}
	return out
}

func TestNothingHappensByItself(t *testing.T) {
	none(t, magic(goFiles(sources(t), true)))
	require.Len(t, magic([]*file{parse(t, "a.go", "package helpers\nfunc init() {}\nfunc (t T) init() {}")}), 2)
	require.Empty(t, magic([]*file{parse(t, "a.go", "package main\nfunc init() {}")}))
}

// Budgets of program code, as in docs/design.md.
const (
	fileLines        = 500
	functionLines    = 80
	interfaceMethods = 6
)

// overweight finds what has outgrown its budget.
func overweight(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.test() || within(f.dir(), testFolders()) {
			continue
		}
		if n := bytes.Count(f.text, []byte("\n")); n > fileLines {
			out = append(out, fmt.Sprintf("%s: %d lines, budget %d", f.path, n, fileLines))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				from, to := f.fset.Position(n.Pos()).Line, f.fset.Position(n.End()).Line
				if to-from+1 > functionLines {
					out = append(out, fmt.Sprintf("%s: %s has %d lines, budget %d", f.at(n.Pos()), n.Name, to-from+1, functionLines))
				}
			case *ast.InterfaceType:
				if methods := n.Methods.NumFields(); methods > interfaceMethods {
					out = append(out, fmt.Sprintf("%s: interface of %d methods, budget %d", f.at(n.Pos()), methods, interfaceMethods))
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return out
}

func TestBudgetsAreKept(t *testing.T) {
	none(t, overweight(goFiles(sources(t), false)))
	long := "package a\nfunc f() {\n" + strings.Repeat("g()\n", 520) +
		"}\ntype I interface { A(); B(); C(); D(); E(); F(); G() }\n"
	require.Len(t, overweight([]*file{parse(t, "a/a.go", long)}), 3)
}
