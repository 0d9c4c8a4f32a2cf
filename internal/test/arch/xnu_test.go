package arch

import (
	"go/ast"
	"go/constant"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers returns the integer constants of a block that are literals, by their names.
func numbers(block *ast.GenDecl) map[string]constant.Value {
	out := map[string]constant.Value{}
	for _, spec := range block.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || block.Tok != token.CONST || len(v.Values) != 1 {
			continue
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.INT {
			out[v.Names[0].Name] = constant.MakeFromLiteral(lit.Value, token.INT, 0)
		}
	}
	return out
}

// unlike returns what a table of numbers, as in testdata/xnu.txt, and files of Go say differently. Each block with a
// number of the table has all of its numbers there.
func unlike(table string, files []*file) []string {
	want := map[string]constant.Value{}
	for line := range strings.Lines(table) {
		if row := strings.Fields(line); len(row) == 5 && row[0] != "#" {
			want[row[0]+" "+row[1]] = constant.MakeFromLiteral(row[2], token.INT, 0)
		}
	}
	var out []string
	seen := map[string]bool{}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			block, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			have, listed := numbers(block), false
			for name, value := range have {
				if w, ok := want[f.dir()+" "+name]; ok {
					listed, seen[f.dir()+" "+name] = true, true
					if !constant.Compare(w, token.EQL, value) {
						out = append(out, f.dir()+" "+name+" is "+value.String())
					}
				}
			}
			for name := range have {
				if _, ok := want[f.dir()+" "+name]; listed && !ok {
					out = append(out, f.dir()+" "+name+" has no line")
				}
			}
		}
	}
	for name := range want {
		if !seen[name] {
			out = append(out, name+" is in no file")
		}
	}
	return out
}

// The numbers of macOS' kernel interface are those of its headers.
func TestNumbersOfMacOS(t *testing.T) {
	table, err := os.ReadFile("testdata/xnu.txt")
	require.NoError(t, err)
	require.Empty(t, unlike(string(table), goFiles(sources(t), false)))

	files := []*file{parse(t, "p/a.go", "package p\nconst (\n\ta = 0x10\n\tb = 2\n)\nconst other = 3")}
	require.Empty(t, unlike("p a 16 A h:1\np b 2 B h:2", files))
	require.Equal(t, []string{"p b has no line"}, unlike("p a 16 A h:1", files))
	require.Equal(t, []string{"p b is 2"}, unlike("p a 16 A h:1\np b 3 B h:2", files))
	require.Equal(t, []string{"p c is in no file"}, unlike("p a 16 A h:1\np b 2 B h:2\np c 2 C h:3", files))
}
