package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/tidemark-backup/tidemark"

// root is the repository, seen from here.
const root = "../../.."

// file is one file of the repository.
type file struct {
	path string // from the root, with slashes
	text []byte
	ast  *ast.File // of Go files
	fset *token.FileSet
}

func (f *file) dir() string  { return path.Dir(f.path) }
func (f *file) test() bool   { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) golang() bool { return f.ast != nil }

// at names a place in f, for findings.
func (f *file) at(pos token.Pos) string {
	return f.path + ":" + strconv.Itoa(f.fset.Position(pos).Line)
}

// imports returns the packages of this module that f imports, without the module's name, and all others in full.
func (f *file) imports() []string {
	var all []string
	for _, spec := range f.ast.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, strings.TrimPrefix(name, module+"/"))
	}
	return all
}

// importName returns the name under which f uses an import, "" if it has not got it.
func (f *file) importName(of string) string {
	for _, spec := range f.ast.Imports {
		if name, _ := strconv.Unquote(spec.Path.Value); name == of {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(of)
		}
	}
	return ""
}

// parse makes a Go file for a test of a law.
func parse(t *testing.T, at, text string) *file {
	t.Helper()
	f, err := parseGo(at, text)
	require.NoError(t, err)
	return f
}

func parseGo(at, text string) (f *file, err error) {
	f = &file{path: at, text: []byte(text), fset: token.NewFileSet()}
	f.ast, err = parser.ParseFile(f.fset, at, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// text makes a file that is not Go.
func text(at, content string) *file { return &file{path: at, text: []byte(content)} }

// sources returns the whole repository but for what version control and builds leave there. It is read once.
func sources(t *testing.T) []*file {
	t.Helper()
	all, err := repository()
	require.NoError(t, err)
	require.Greater(t, len(all), 100, "the repository was not found")
	return slices.Clone(all)
}

var repository = sync.OnceValues(readRepository)

func readRepository() (all []*file, err error) {
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (rel == ".git" || rel == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Type().IsRegular() && ours(rel):
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			if bytes.IndexByte(content, 0) >= 0 {
				return nil // not text
			}
			f := text(rel, string(content))
			if strings.HasSuffix(rel, ".go") {
				if f, err = parseGo(rel, string(content)); err != nil {
					return err
				}
			}
			all = append(all, f)
		}
		return nil
	})
	return all, err
}

// ours reports whether a file is written by us, rather than left here by a tool.
func ours(rel string) bool {
	switch ext := path.Ext(rel); ext {
	case ".go", ".md", ".yml", ".mod":
		return true
	default:
		return rel == "Makefile" || rel == ".ci/run"
	}
}

// goFiles returns the Go files among all; program code only, or tests too.
func goFiles(all []*file, tests bool) []*file {
	var out []*file
	for _, f := range all {
		if f.golang() && (tests || !f.test()) {
			out = append(out, f)
		}
	}
	return out
}

// named returns the file at a path.
func named(t *testing.T, all []*file, at string) *file {
	t.Helper()
	for _, f := range all {
		if f.path == at {
			return f
		}
	}
	require.Failf(t, "missing file", "%s", at)
	return nil
}

// none fails with every finding on a line of its own.
func none(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}
