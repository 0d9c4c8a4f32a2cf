package output

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// heads returns the headings of all tables of this package, by the file that has them.
func heads(t *testing.T) map[string][][]string {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	all := map[string][][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, isName := pair.Key.(*ast.Ident)
			list, isList := pair.Value.(*ast.CompositeLit)
			if !isName || key.Name != "head" || !isList {
				return true
			}
			var head []string
			for _, one := range list.Elts {
				text, err := strconv.Unquote(one.(*ast.BasicLit).Value)
				require.NoError(t, err)
				head = append(head, text)
			}
			all[name] = append(all[name], head)
			return true
		})
	}
	return all
}

// typical returns a long value of a column that stays whole.
func typical(heading string) string {
	for name, value := range map[string]string{"Time": "2026-11-28 14:51:45", "Start": "2026-11-28 14:51:45",
		"Made": "2026-11-28 14:51:45", "Last used": "2026-11-28 14:51:45", "Next": "2026-11-29 02:30", "ID": "836a739b",
		"Repository": "836a739b", "Size>": "124.00 KiB", "PID>": "1234567", "Running>": "12:34:56", "Kind": "recovery key",
		"Estimate of a run": "check --read-data", "Put, list>": "123,456", "Get>": "12,345,678", "Delete>": "12",
		"Cost>":    "1234.5678",
		"Schedule": "weekly sunday 03:00", "Option": "memory-efficient-backup", "Result": "warning", "Effect": "exclude",
		"Took>": "12 h 34 min", "Files>": "1,234,567",
		"Share>": "100.0 %", "Trigger": "schedule", "Outcome": "incomplete", "Read>": "124.00 KiB",
		"Stored>": "124.00 KiB", "Probe": "file system", "": "keep", "Job": "home-documents"} {
		if heading == name {
			return value
		}
	}
	return ""
}

// On a terminal that is too narrow for a table, headings stay whole too.
func TestTablesOnANarrowTerminal(t *testing.T) {
	for file, tables := range heads(t) {
		for _, head := range tables {
			tab := table{head: head}
			tab.add(slices.Repeat([]string{strings.Repeat("long name/", 12)}, len(head))...)
			for width := range 81 {
				page := &show.Page{Width: width}
				tab.write(page)
				for _, name := range head {
					require.Contains(t, page.String(), strings.TrimRight(name, ">~|"), "%s, %d columns", file, width)
				}
			}
		}
	}
}

// Each table fits a terminal: paths are shortened in their middle, prose is broken at words, and times, IDs and
// verdicts stay whole. In a pipe nothing is shortened.
func TestTablesFitATerminal(t *testing.T) {
	path, prose := "/home/a folder/"+strings.Repeat("long name/", 12)+"end.txt", strings.Repeat("some words here ", 12)
	all := heads(t)
	require.Greater(t, len(all), 8)
	all["snapshot.go"] = [][]string{{"ID", "Time", "Host~", "Tags~", "Paths~", "Size>"}}
	all["log.go"] = append(all["log.go"][1:], []string{"Start", "Job~", "Outcome", "Took>", "Stored>", "Message|"})
	for file, tables := range all {
		for _, head := range tables {
			var whole []string
			tab := table{head: head}
			row := make([]string, len(head))
			for i, h := range head {
				switch {
				case strings.HasSuffix(h, "~"):
					row[i] = path
				case strings.HasSuffix(h, "|"):
					row[i] = prose
				default:
					row[i] = typical(h)
					require.False(t, row[i] == "", "%s: a value for the column %q is missing in this test", file, h)
					whole = append(whole, row[i])
				}
			}
			tab.add(row...)
			for _, width := range []int{80, 120} {
				page := &show.Page{Width: width}
				tab.write(page)
				text := page.String()
				for line := range strings.Lines(text) {
					require.LessOrEqual(t, human.Columns(strings.TrimSuffix(line, "\n")), width, "%s %s", file, text)
				}
				for _, cell := range whole {
					require.Contains(t, text, cell, "%s is cut", cell)
				}
				require.Equal(t, strings.Count(prose, "some")*strings.Count(strings.Join(head, ""), "|"),
					strings.Count(text, "some"), "all words are there: %s", text)
			}
			var pipe show.Page
			tab.write(&pipe)
			require.Equal(t, 3, strings.Count(pipe.String(), "\n"), "a row is a line in a pipe")
		}
	}
}

// What a person meets first fits 80 columns: the run log and the options.
func TestScreensFitATerminal(t *testing.T) {
	long := "/home/" + strings.Repeat("a long name ", 12)
	at := time.Date(2026, 11, 28, 14, 51, 45, 0, time.Local)
	for _, r := range []Record{
		Runs([]event.Run{{Start: at, End: at.Add(time.Hour), Job: "home", Outcome: "incomplete", Trigger: "schedule",
			Message: "some objects could not be backed up: source " + long}}),
		Options([]options.Effective{{Name: "repo", Value: long, Origin: long + ":5"}}, ""),
	} {
		for _, width := range []int{80, 120} {
			page := &show.Page{Width: width}
			r.Text(page)
			for line := range strings.Lines(page.String()) {
				require.LessOrEqual(t, human.Columns(strings.TrimSuffix(line, "\n")), width, page.String())
			}
		}
	}
}
