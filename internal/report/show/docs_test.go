package show

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Every line a report can have, and every stage, is explained in docs/report.md.
func TestEveryLineIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../../docs/report.md")
	require.NoError(t, err)
	tier := regexp.MustCompile(`tier [0-3]$`)
	explained := func(s string) bool {
		return strings.Contains(string(text), "| "+s+" |") || strings.Contains(string(text), "| "+s+",") ||
			strings.Contains(string(text), ", "+s+" |")
	}
	for _, job := range []report.Kind{report.Backup, report.Restore, report.Check} {
		for _, r := range sessionRows(&report.Totals{Job: job}) {
			label := strings.NewReplacer("Directories new", "Files new", "Others new", "Files new").Replace(r.label)
			require.True(t, r.label == "" || explained(label), r.label)
		}
	}
	for s := range len(report.StageTimes{}) {
		require.True(t, explained(report.Stage(s).String()), report.Stage(s).String())
	}
	var gate Page
	writeGateRows(&gate, &report.Gate{Held: 1, Engaged: 1, Charged: 1, Windows: [iopolicy.Tiers]uint64{1, 1, 1, 1}}, 0)
	require.Equal(t, 7, strings.Count(gate.String(), "\n"))
	for line := range strings.Lines(gate.String()) {
		label := tier.ReplaceAllString(strings.TrimSpace(line[:32]), "tier ")
		require.Regexp(t, `(?m)^\| `+label+`[03]? \|`, string(text))
	}
	for _, label := range []string{"I/O policy", "used by"} {
		require.True(t, explained(label), label)
	}
}
