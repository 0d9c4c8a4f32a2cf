package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// columns is how wide a line of Go may be; a tab counts as one column.
const columns = 120

// refusedWord is a word with a plain one in its place.
type refusedWord struct {
	pattern string // of lower-case words with one space between them; without groups that capture
	instead string
	allowed int // occurrences left in the tree: lower it when there are fewer; 0 refuses the word
}

// refusedWords lists the words that names and comments of Go files do not use. TestWordsAreOfTheField -v prints the
// counts.
func refusedWords() []refusedWord {
	return []refusedWord{
		{`crews?`, "worker pool", 0},
		{`hush(?:es|ed)?`, "forced idle gap", 0},
		{`gatehouses?`, "throttle manager", 0},
		{`condemn(?:s|ed)?`, "doomed, mark for deletion", 0},
		{`pardon(?:s|ed)?`, "revived", 0},
		{`refuses? to know`, "delete the sentence: the import test says it", 0},
		{`heed(?:s|ed|ing)?`, "acknowledge", 0},
		{`in vain`, "unused", 0},
		{`anew`, "again, repacked", 0},
		{`of which`, "a sentence of its own", 0},
		{`somebody`, "name the component or program", 0},
		{`nobody`, "name the component or program (these are the user nobody)", 9},
		{`whoever`, "name the component or program", 0},
		{`told|tells?|telling`, "report, record, return", 0},
		{`(?:gives?|giving|gave) way`, "yield", 0},
		{`census`, "temporary blob index", 0},
		{`lulls?`, "idle gap", 0},
		{`brisk`, "say what is fast", 0},
		{`culprits?`, "top I/O process", 0},
		{`writes? down|books?|booked`, "record", 0},
	}
}

// phrase is a name or a comment, as lower-case words with one space between them.
type phrase struct{ at, words string }

// phrases returns the declared names and the lines of comments of a Go file. A comment that goes on in the next line is
// one phrase, which is reported at its first line.
func phrases(f *file) (all []phrase) {
	for _, group := range f.ast.Comments {
		all = append(all, phrase{f.at(group.Pos()), plainWords(group.Text())})
	}
	name := func(id *ast.Ident) {
		if id != nil && id.Name != "_" {
			all = append(all, phrase{f.at(id.Pos()), plainWords(splitName(id.Name))})
		}
	}
	name(f.ast.Name)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name(n.Name)
		case *ast.TypeSpec:
			name(n.Name)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				name(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				name(id)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					name(id)
				}
			}
		}
		return true
	})
	return all
}

// plainWords drops everything but letters, in lower case.
func plainWords(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }), " ")
}

// splitName puts a space before each capital letter that begins a word of a name.
func splitName(name string) string {
	words := make([]byte, 0, 2*len(name))
	for i := range len(name) {
		if i > 0 && 'A' <= name[i] && name[i] <= 'Z' && (name[i-1] < 'A' || name[i-1] > 'Z') {
			words = append(words, ' ')
		}
		words = append(words, name[i])
	}
	return string(words)
}

// uses returns where each refused word occurs, by its pattern.
func uses(files []*file, refused []refusedWord) map[string][]string {
	found := map[string][]string{}
	groups := make([]string, len(refused))
	for i, w := range refused {
		groups[i] = "(" + w.pattern + ")"
	}
	anyWord := regexp.MustCompile(`\b(?:` + strings.Join(groups, "|") + `)\b`)
	for _, f := range files {
		for _, p := range phrases(f) {
			for _, hit := range anyWord.FindAllStringSubmatchIndex(p.words, -1) {
				for i, w := range refused {
					if hit[2+2*i] >= 0 {
						found[w.pattern] = append(found[w.pattern], p.at)
					}
				}
			}
		}
	}
	return found
}

// excess describes the words that occur more often than allowed, with the places.
func excess(found map[string][]string, refused []refusedWord) (out []string) {
	for _, w := range refused {
		if at := found[w.pattern]; len(at) > w.allowed {
			out = append(out, fmt.Sprintf("%q occurs %d times, allowed %d (write: %s), in\n\t%s",
				w.pattern, len(at), w.allowed, w.instead, strings.Join(at, "\n\t")))
		}
	}
	return out
}

func TestWordsAreOfTheField(t *testing.T) {
	found := uses(goFiles(sources(t), true), refusedWords())
	none(t, excess(found, refusedWords()))
	for _, w := range slices.SortedFunc(slices.Values(refusedWords()), func(a, b refusedWord) int {
		return cmp.Compare(len(found[b.pattern]), len(found[a.pattern]))
	}) {
		t.Logf("%5d of %5d allowed: %s", len(found[w.pattern]), w.allowed, w.pattern)
	}
}

func TestWordLawFindsWords(t *testing.T) {
	text := "// Package a is told\n// in\n// vain.\npackage a\n\nvar crewSize, screw = 1, \"anew\"\n\n" +
		"func f(whoever int) { hush := 1; _ = hush }\n"
	f := parse(t, "a/a.go", text)
	refused := []refusedWord{
		{`told`, "", 0}, {`in vain`, "", 0}, {`crews?`, "", 1}, {`anew`, "", 0}, {`whoever`, "", 0}, {`hush`, "", 0},
	}
	require.Equal(t, map[string][]string{
		"told": {"a/a.go:1"}, "in vain": {"a/a.go:1"}, "crews?": {"a/a.go:6"}, "whoever": {"a/a.go:8"}, "hush": {"a/a.go:8"},
	}, uses([]*file{f}, refused))
	require.Len(t, excess(uses([]*file{f}, refused), refused), 4)
}

// wide finds lines of Go that are too wide.
func wide(files []*file) (out []string) {
	for _, f := range files {
		n := 0
		for line := range strings.Lines(string(f.text)) {
			n++
			if width := utf8.RuneCountInString(strings.TrimRight(line, "\n")); width > columns {
				out = append(out, fmt.Sprintf("%s:%d: %d columns", f.path, n, width))
			}
		}
	}
	return out
}

func TestLinesAreNarrow(t *testing.T) {
	found := wide(goFiles(sources(t), true))
	none(t, found[:min(len(found), 50)])
	long := "package a\n\n// " + strings.Repeat("x", columns-2) + "\n// " + strings.Repeat("ü", columns-3) + "\n"
	require.Equal(t, []string{"a/a.go:3: 121 columns"}, wide([]*file{parse(t, "a/a.go", long)}))
}
