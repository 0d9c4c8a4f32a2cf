package show

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Every line a report can have, and every stage, is explained in docs/report.md.
func TestEveryLineIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../../docs/report.md")
	require.NoError(t, err)
	explained := func(s string) bool {
		return strings.Contains(string(text), "| "+s+" |") || strings.Contains(string(text), "| "+s+",") ||
			strings.Contains(string(text), ", "+s+" |")
	}
	for _, job := range []report.Job{report.Backup, report.Restore, report.Check} {
		for _, r := range sessionRows(&report.Totals{Job: job}) {
			label := strings.NewReplacer("Directories new", "Files new", "Others new", "Files new").Replace(r.label)
			require.True(t, r.label == "" || explained(label), r.label)
		}
	}
	for s := range len(report.StageTimes{}) {
		require.True(t, explained(report.Stage(s).String()), report.Stage(s).String())
	}
}
