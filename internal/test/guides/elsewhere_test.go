package guides

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/elsewhere"
)

// explained returns the row of the longest command of a program at the beginning of words.
func explained(program string, words []string) *elsewhere.Row {
	for n := len(words); n > 0; n-- {
		for _, row := range elsewhere.Commands() {
			if row.Program == program && row.Theirs == strings.Join(words[:n], " ") {
				return &row
			}
		}
	}
	return nil
}

// The guides and the answers to unknown commands agree: each command of another program in a guide is known, and
// the command of tidemark beside it is one that the answer names.
func TestGuidesAgreeWithTheAnswers(t *testing.T) {
	pair := regexp.MustCompile("^\\| `(restic|borg|tmutil|dsmc) ([^`]+)` \\| `tidemark ([^`]+)` \\|$")
	count := 0
	for _, name := range documents(t, "docs/guides/*.md") {
		for line := range strings.Lines(read(t, name)) {
			found := pair.FindStringSubmatch(strings.TrimSpace(line))
			if found == nil {
				continue
			}
			count++
			row := explained(found[1], strings.Fields(found[2]))
			require.NotNil(t, row, "%s: %s", name, line)
			require.True(t, slices.ContainsFunc(row.Ours, func(ours string) bool {
				command, _, _ := strings.Cut(ours, " -")
				return strings.HasPrefix(found[3]+" ", command+" ") || strings.HasPrefix(ours, "-") &&
					strings.Contains(found[3], ours)
			}), "%s: %s: the answer is %q", name, line, row.Ours)
		}
	}
	require.Greater(t, count, 40)
}
