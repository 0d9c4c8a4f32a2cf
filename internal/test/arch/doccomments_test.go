package arch

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// misnamed finds comments of functions and types that begin with an identifier other than the declared one. A rename
// leaves such comments behind. A comment may begin with a word of a sentence: one that has a capital first letter where
// the declared name has none.
func misnamed(files []*file) (out []string) {
	for _, f := range files {
		check := func(name *ast.Ident, doc *ast.CommentGroup) {
			if doc == nil || f.test() {
				return
			}
			first, _, _ := strings.Cut(strings.TrimSpace(doc.Text()), " ")
			first = strings.TrimRight(strings.TrimSuffix(first, "'s"), ".,:")
			sentence := first == "" || unicode.IsUpper(rune(first[0])) && !name.IsExported()
			if first != name.Name && !sentence && first != "A" && first != "An" && first != "The" {
				out = append(out, fmt.Sprintf("%s: the comment of %s begins with %q", f.at(name.Pos()), name.Name, first))
			}
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				check(d.Name, d.Doc)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						doc := t.Doc
						if doc == nil && len(d.Specs) == 1 {
							doc = d.Doc
						}
						check(t.Name, doc)
					}
				}
			}
		}
	}
	return out
}

func TestCommentsBeginWithTheDeclaredName(t *testing.T) {
	none(t, misnamed(goFiles(sources(t), false)))
	for text, found := range map[string]int{
		"// lanes bounds uploads.\ntype slots struct{}": 1, "// slots bounds uploads.\ntype slots struct{}": 0,
		"// Bounds uploads.\nfunc slots() {}": 0, "// Add adds.\nfunc Put() {}": 1, "func Put() {}": 0,
	} {
		require.Len(t, misnamed([]*file{parse(t, "a/a.go", "package a\n"+text+"\n")}), found, text)
	}
}
