package roundtrip

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestTotalsAreKnownBeforeTheScan: a second backup begins with the totals of the snapshot before it, so that its
// percentage means something from the first moment on; the first backup has none.
func TestTotalsAreKnownBeforeTheScan(t *testing.T) {
	dir := filepath.Join(testkit.RamDir(t), "src")
	const files, size = 300, 5000
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), testkit.Noise(uint64(i), size), 0o600))
	}
	e := kit.NewEngine(t, mem.New())
	atBegin := func(force bool) (totals report.Totals) {
		job := e.Job(dir)
		job.Source.Comparing.Force = force
		job.Phases.Begin = func(bool) { totals = e.Ledger.Snapshot() }
		_, _, err := e.Backup(job)
		require.NoError(t, err)
		return totals
	}
	first := atBegin(false)
	require.Zero(t, first.Expected)
	progress := first.Progress()
	require.False(t, progress.Known)

	require.NoError(t, os.Remove(filepath.Join(dir, "0")))
	second := atBegin(false)
	require.Zero(t, second.Objects.Inspected)
	require.EqualValues(t, files*size, second.Expected.Bytes)
	require.Greater(t, second.Expected.Objects, uint64(files))
	require.False(t, second.Expected.Exact)
	progress = second.Progress()
	require.True(t, progress.Known)
	require.Zero(t, progress.Ratio())
	end := e.Ledger.Snapshot()
	require.EqualValues(t, (files-1)*size, end.Expected.Bytes, "what the scan counted")
	require.True(t, end.Expected.Exact)

	forced := atBegin(true)
	require.Equal(t, report.Expected{Objects: end.Expected.Objects, Bytes: end.Expected.Bytes}, forced.Expected,
		"a backup that compares with no snapshot expects as much as the last one had")
}
