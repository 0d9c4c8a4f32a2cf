package target_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// A target is probed when it is first seen, and again when something else is mounted there, and then no more.
func TestProbedOncePerMount(t *testing.T) {
	testkit.Slow(t)
	cache, path := filepath.Join(t.TempDir(), "not", "there"), t.TempDir()
	look := func() *target.Report {
		report, err := target.ProbeOnce(t.Context(), path, cache, nil, device.NewFinder())
		require.NoError(t, err)
		return report
	}
	require.NotNil(t, look())
	require.Nil(t, look())
	testkit.MountMemory(t, path, "300m")
	report := look()
	require.Equal(t, "degraded because of file system", report.Sentence())
	require.Nil(t, look(), "reported once")
	require.NoError(t, unix.Unmount(path, 0))
	require.NotNil(t, look())
	require.Nil(t, look())
	require.NoError(t, os.WriteFile(filepath.Join(cache, "target.json"), []byte("damaged"), 0o600))
	require.NotNil(t, look())
	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestWhatCannotBeRemembered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	report, err := target.ProbeOnce(t.Context(), t.TempDir(), file, nil, device.NewFinder())
	require.ErrorContains(t, err, "remember the target")
	require.NotNil(t, report)
	_, err = target.ProbeOnce(t.Context(), file, t.TempDir(), nil, device.NewFinder())
	require.Error(t, err)
}
