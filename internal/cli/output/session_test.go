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
