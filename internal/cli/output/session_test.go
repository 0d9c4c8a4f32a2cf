package output

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/report"
)

// A device on which nobody slept is told of only to those who want to know.
func TestVerboseReportsTellOfQuietDevices(t *testing.T) {
	gate := report.Gate{Device: "sda", Engaged: 50 * time.Millisecond, Windows: [report.Tiers]uint64{3}}
	l := report.New(time.Now)
	l.Gates(func() []report.Gate { return []report.Gate{gate} })
	result := &check.Result{}
	text := func(verbose bool) (all []string) {
		for _, one := range []interface{ Text(w io.Writer) error }{
			&Backup{Ledger: l, Verbose: verbose}, &Restore{Ledger: l, Verbose: verbose},
			&Check{Ledger: l, Result: result, Verbose: verbose},
		} {
			var b strings.Builder
			require.NoError(t, one.Text(&b))
			require.NotContains(t, b.String(), "\n\n\n")
			all = append(all, b.String())
		}
		return all
	}
	for _, one := range text(false) {
		require.NotContains(t, one, "sda")
	}
	for _, one := range text(true) {
		require.Contains(t, one, "\nNobody had to be given way on sda.\nOthers used sda, and nobody had to sleep:\n  windows open ")
	}
	gate.Held = time.Millisecond
	for _, one := range text(true) {
		require.NotContains(t, one, "Nobody had to be given way")
		require.Contains(t, one, "\nGiving way to others on sda:\n")
	}
}

// What a check that ended halfway has found is told, and nothing about the rest.
func TestACheckThatDidNotEndHasNoVerdict(t *testing.T) {
	for found, want := range map[uint64]string{
		0: "\nthe check did not come to its end: what it has not looked at may be damaged; 0 problems found until then\n",
		2: "\nthe check did not come to its end: what it has not looked at may be damaged; 2 problems found until then\n",
	} {
		end := &Check{Ledger: report.New(time.Now), Result: &check.Result{Snapshots: 3, More: found}, Halfway: true}
		var b strings.Builder
		require.NoError(t, end.Text(&b))
		require.Contains(t, b.String(), want)
		require.NotContains(t, b.String(), "looked at 3 snapshots")
		require.NotContains(t, b.String(), "no errors")
		require.Empty(t, end.Events())
		end.Halfway = false
		require.Len(t, end.Events(), 1)
	}
}
