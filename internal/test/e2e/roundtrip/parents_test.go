package roundtrip

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestEachSourceHasItsOwnParent: whatever other backups of parts of a source, or of more than it, are made in between,
// a backup reads nothing that a snapshot has, and counts it as unchanged.
func TestEachSourceHasItsOwnParent(t *testing.T) {
	testkit.Slow(t)
	for name, noCache := range map[string]bool{"with directory cache": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.RamDir(t)
			kit.Written(t, dir, map[string]string{
				"l/few/a": "a", "l/few/deep/b": "b", "l/f": "f", "l/g": "g", "m/x": "x", "n/file": "n",
			})
			kit.Settle()
			e := kit.NewEngine(t, nil)
			run := func(read, files, expired uint64, sources ...string) *backup.Outcome {
				t.Helper()
				for i := range sources {
					sources[i] = filepath.Join(dir, sources[i])
				}
				job := e.JobOf(sources...)
				job.NoDirCache = noCache
				out, totals, err := e.Backup(job)
				require.NoError(t, err)
				require.Equal(t, read, totals.Bytes.Read, "bytes read")
				require.Equal(t, report.ComparedOf[uint64]{New: read, Unmodified: files - read}, totals.Files)
				require.Equal(t, expired, totals.Objects.Expired)
				if read == 0 {
					require.Zero(t, totals.Dirs.New, "new directories")
				}
				e.RequireSound()
				return out
			}
			first := run(4, 4, 0, "l")
			run(0, 2, 0, "l/few")
			require.Equal(t, first.ID, run(0, 4, 0, "l").Snapshot.Parent)
			run(0, 1, 0, "l/f")
			run(1, 1, 0, "m")
			run(0, 5, 0, "l", "m")
			run(1, 4, 0, "m", "n/file", "l/few")
			run(0, 6, 0, "l", "m", "n/file")
			run(0, 1, 0, "n/file")
			require.NoError(t, os.Remove(filepath.Join(dir, "l/g")))
			kit.Settle()
			run(0, 5, 1, "l", "m", "n/file")
		})
	}
}

// A source that was empty for a while is compared with the snapshot that had its files.
func TestASourceThatWasEmptyComesBack(t *testing.T) {
	for name, noCache := range map[string]bool{"with directory cache": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.RamDir(t)
			kit.Written(t, dir, map[string]string{"l/a": "a", "l/deep/b": "b", "m/x": "x"})
			kit.Settle()
			e := kit.NewEngine(t, nil)
			run := func() report.Totals {
				t.Helper()
				job := e.JobOf(filepath.Join(dir, "l"), filepath.Join(dir, "m"))
				job.NoDirCache = noCache
				_, totals, err := e.Backup(job)
				require.NoError(t, err)
				return totals
			}
			require.EqualValues(t, 3, run().Files.New)
			require.NoError(t, os.Rename(filepath.Join(dir, "l"), filepath.Join(dir, "away")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "l"), 0o700))
			for range 2 {
				require.EqualValues(t, 1, run().Files.Unmodified)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "l")))
			require.NoError(t, os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "l")))
			back := run()
			require.Equal(t, report.ComparedOf[uint64]{Unmodified: 3}, back.Files)
			require.Zero(t, back.Bytes.Read)
			e.RequireSound()
		})
	}
}

// TestYoungFilesAreKnown: a directory whose files may change again without a new timestamp is checked by each backup.
// Its files are compared with those of the last snapshot, not with those of the last one when none of them was young.
func TestYoungFilesAreKnown(t *testing.T) {
	dir := testkit.RamDir(t)
	kit.Written(t, dir, map[string]string{"l/few/a": "a", "l/f": "f"})
	kit.Settle()
	before := time.Now()
	e := kit.NewEngine(t, nil)
	run := func(name string) report.ComparedOf[uint64] {
		t.Helper()
		job := e.Job(filepath.Join(dir, name))
		job.Source.Frozen = backup.NewFrozen(before) // by the clock of the walk, all later files are young
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		return totals.Files
	}
	require.Equal(t, report.ComparedOf[uint64]{New: 2}, run("l"))
	kit.Written(t, dir, map[string]string{"l/few/young": "1", "l/young": "2"})
	kit.Settle()
	require.Equal(t, report.ComparedOf[uint64]{New: 2, Unmodified: 2}, run("l"))
	for range 3 {
		require.Equal(t, report.ComparedOf[uint64]{Unmodified: 2}, run("l/few"))
		require.Equal(t, report.ComparedOf[uint64]{Unmodified: 4}, run("l"))
	}
}
