package arch

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// promiseTable is where the promises about data are listed with the tests that hold them.
const promiseTable = "internal/test/e2e/README.md"

// unproven finds rows of the table that have no test, or name a missing document or test.
func unproven(table *file, tests map[string]bool, exists func(string) bool) (out []string, rows int) {
	for i, line := range strings.Split(string(table.text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[1]) == "promise" {
			continue
		}
		rows++
		at := fmt.Sprintf("%s:%d", table.path, i+1)
		if document := strings.TrimSpace(cells[2]); !exists(document) {
			out = append(out, fmt.Sprintf("%s: there is no document %s", at, document))
		}
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			out = append(out, at+": no test is named")
		}
		for _, name := range named {
			if !tests[name[1]] {
				out = append(out, fmt.Sprintf("%s: there is no %s below internal/test", at, name[1]))
			}
		}
	}
	return out, rows
}

// testNames returns the tests of the whole engine.
func testNames(files []*file) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		if f.test() && within(f.dir(), []string{"internal/test"}) {
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(f.text, -1) {
				names[string(found[1])] = true
			}
		}
	}
	return names
}

func TestPromisesNameTests(t *testing.T) {
	all := sources(t)
	missing, rows := unproven(named(t, all, promiseTable), testNames(goFiles(all, true)), exists)
	none(t, missing)
	require.Greater(t, rows, 20, "the table was not found")
	table := text("t.md", "| promise | document | tests |\n|---|---|---|\n"+
		"| a | a.md | `TestA` |\n| b | b.md | `TestA`, `TestB` |\n| c | a.md | |\n")
	missing, rows = unproven(table, map[string]bool{"TestA": true}, func(at string) bool { return at == "a.md" })
	require.Equal(t, []string{
		"t.md:4: there is no document b.md", "t.md:4: there is no TestB below internal/test", "t.md:5: no test is named",
	}, missing)
	require.Equal(t, 3, rows)
}
