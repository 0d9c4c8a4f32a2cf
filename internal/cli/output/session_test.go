package output

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Only a full report includes a device without throttling.
func TestFullReportsNameQuietDevices(t *testing.T) {
	gate := report.Gate{Device: "sda", Engaged: 50 * time.Millisecond, Windows: [iopolicy.Tiers]uint64{3}}
	l := report.New(time.Now)
	l.Gates(func() []report.Gate { return []report.Gate{gate} })
	result := &check.Result{}
	text := func(full bool) (all []string) {
		for _, one := range []Record{
			&Backup{Ledger: l}, &Restore{Ledger: l},
			&Check{Ledger: l, Result: result},
		} {
			b := show.Page{Full: full}
			one.Text(&b)
			require.NotContains(t, b.String(), "\n\n\n")
			all = append(all, b.String())
		}
		return all
	}
	for _, one := range text(false) {
		require.NotContains(t, one, "sda")
	}
	for _, one := range text(true) {
		require.Contains(t, one, "\nThe job never yielded on sda.\nOthers used sda, and the job did not sleep:\n  "+
			"windows open ")
	}
	gate.Held = time.Millisecond
	for _, one := range text(true) {
		require.NotContains(t, one, "The job never yielded")
		require.Contains(t, one, "\nYielding on sda:\n")
	}
}

// A check that ended halfway reports its findings, and nothing about the rest.
func TestAnUnfinishedCheckHasNoOutcome(t *testing.T) {
	for found, want := range map[uint64]string{
		0: "the check is incomplete: the rest may be damaged; 0 problems found so far\n",
		2: "the check is incomplete: the rest may be damaged; 2 problems found so far\n",
	} {
		end := &Check{Ledger: report.New(time.Now), Result: &check.Result{Snapshots: 3, More: found}, Halfway: true}
		var b show.Page
		end.Text(&b)
		require.Contains(t, b.String(), want)
		require.NotContains(t, b.String(), "looked at 3 snapshots")
		require.NotContains(t, b.String(), "no errors")
		require.Empty(t, end.Events())
		end.Halfway = false
		require.Len(t, end.Events(), 1)
	}
}
