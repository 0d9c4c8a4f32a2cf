package output

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of docs/json.md")

// jsonPage is the page whose tables are generated from structs: of packages event, report and output by their name, of
// others as pkg.Name.
const jsonPage = "../../../docs/json.md"

// TestTablesAreCurrent generates each table between the lines "<!-- Generated from TYPE -->" and "<!-- End of
// generated -->": a row for each field with a comment, together with the fields below it that have none.
func TestTablesAreCurrent(t *testing.T) {
	page, err := os.ReadFile(jsonPage)
	require.NoError(t, err)
	types := structs(t, "../../report/event", "../../report", ".", "../../backup", "../../browse", "../../buildinfo",
		"../../copy", "../../drill", "../../manual", "../../options", "../../options/optionfile", "../../proofs",
		"../../prune", "../../repair", "../../rewrite", "../../service", "../../../pkg/format/snapshot")
	table := regexp.MustCompile(`(?s)(<!-- Generated from ([\w.]+) -->\n).*?(<!-- End of generated -->)`)
	want := table.ReplaceAllStringFunc(string(page), func(block string) string {
		m := table.FindStringSubmatch(block)
		require.Contains(t, types, m[2])
		var b strings.Builder
		b.WriteString(m[1] + "| field | meaning |\n|---|---|\n")
		for _, r := range rowsOf(types, m[2]) {
			b.WriteString("| `" + strings.Join(r.names, "`, `") + "` | " + r.meaning + " |\n")
		}
		return b.String() + m[3]
	})
	if *update {
		require.NoError(t, os.WriteFile(jsonPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "run go test ./internal/cli/output -update and look at the difference")
}

// structs returns the structs in the Go files of some folders, as pkg.Name and by their name alone, of several the
// first.
func structs(t *testing.T, folders ...string) map[string]*ast.StructType {
	all := map[string]*ast.StructType{}
	for _, folder := range folders {
		files, err := filepath.Glob(folder + "/*.go")
		require.NoError(t, err)
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						all[f.Name.Name+"."+spec.Name.Name] = s
						if all[spec.Name.Name] == nil {
							all[spec.Name.Name] = s
						}
					}
				}
				return true
			})
		}
	}
	return all
}

// row is a row of a table.
type row struct {
	names    []string
	meaning  string
	optional bool // absent without a value
}

// rowsOf returns the rows of a struct. Figures, which have a table of their own, are left out; other embedded structs
// are looked into.
func rowsOf(types map[string]*ast.StructType, of string) (rows []row) {
	for _, f := range types[of].Fields.List {
		if len(f.Names) == 0 {
			name := embedded(f.Type)
			if pkg, _, found := strings.Cut(of, "."); found && types[pkg+"."+name] != nil {
				name = pkg + "." + name
			}
			if name != "Figures" && name != "event.Figures" {
				rows = append(rows, rowsOf(types, name)...)
			}
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		name, rest, _ := strings.Cut(tag, ",")
		if name == "message_type" || name == "-" {
			continue
		}
		meaning := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
		optional := strings.Contains(rest, "omit")
		if n := len(rows); meaning == "" && n > 0 && rows[n-1].optional == optional {
			rows[n-1].names = append(rows[n-1].names, name)
			continue
		}
		if optional {
			meaning = strings.TrimSpace("(o) " + meaning)
		}
		rows = append(rows, row{[]string{name}, meaning, optional})
	}
	return rows
}

// embedded returns the name of an embedded type, with its package if it is of another one.
func embedded(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return embedded(x.X)
	case *ast.SelectorExpr:
		return embedded(x.X) + "." + x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}
