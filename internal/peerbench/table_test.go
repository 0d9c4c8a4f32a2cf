package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{3, 9, 1, 2}), 0)
}

// TestRatiosAreTakenRunByRun: in a slow run both tools are slow, which the ratio must not show.
func TestRatiosAreTakenRunByRun(t *testing.T) {
	var all []measurement
	for run, slow := range []float64{1, 10, 2} {
		all = append(all,
			measurement{Tool: "restic", Step: "restore", Run: run, Seconds: 3 * slow},
			measurement{Tool: "tidemark", Step: "restore", Run: run, Seconds: slow, CPU: 1, Memory: 50 << 20},
		)
	}
	all = append(all, measurement{Tool: "tidemark", Step: sizeStep, Bytes: 5 << 20})
	require.Equal(t, ""+
		"                                         cpu s    rss MiB     ratio\n"+
		"restore        restic        6.00 s       0.00          0      3.00\n"+
		"restore        tidemark      2.00 s       1.00         50      1.00\n"+
		"repository     restic       0.0 MiB                            0.00\n"+
		"repository     tidemark     5.0 MiB                            1.00\n", table(all))
}

func TestIncompleteRestoreDoesNotCount(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("abc"), 0o600))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "link")))
	require.NoError(t, complete(dir, extent{1, 3}))
	require.ErrorContains(t, complete(dir, extent{2, 3}), "restored 1 files of 3 bytes, there are 2 of 3")
	require.Error(t, complete(filepath.Join(dir, "gone"), extent{}))
}
