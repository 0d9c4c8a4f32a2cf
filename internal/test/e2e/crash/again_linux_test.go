package crash

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// A backup is killed while no index segment names any of its packs. The next one on this machine stores only the
// missing blobs and those that were in flight.
func TestAKilledBackupIsNotSentAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const (
		files    = 20
		size     = files << 20
		packSize = 128 << 10
		stored   = 100 // packs when it is killed
	)
	dir := kit.Role()
	if dir != "" {
		e := kit.OpenEngine(t, dir)
		packs := 0
		e.Store = &kit.OnPut{Store: e.Store, OnPack: func() {
			if packs++; packs == stored {
				kit.Hold()
			}
		}}
		job := e.CrashJob(filepath.Join(dir, "src"))
		job.Session.Uploads, job.Session.Tuning.Segment, job.Session.Tuning.Interval = 1, 1<<20, time.Hour
		_, _, err := e.Backup(job)
		require.NoError(t, err)
		return
	}
	dir = testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	require.NoError(t, os.Mkdir(src, 0o755))
	for i := range files {
		path := filepath.Join(src, string(rune('a'+i)))
		require.NoError(t, os.WriteFile(path, testkit.Noise(uint64(i), 1<<20), 0o644))
	}
	kit.Settle()
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	e.Open.Cache.Dir = filepath.Join(dir, "cache")
	small := filepath.Join(dir, "small")
	kit.Written(t, small, map[string]string{"file": "of an earlier backup, which left an index segment"})
	_, _, err = e.Backup(e.CrashJob(small))
	require.NoError(t, err)
	require.True(t, kit.Killed(t, dir, 0))

	var sent meter.Counters
	e.Store = meter.Wrap(st, sent.Observe)
	_, _, err = e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	require.Less(t, sent.BytesPut.Load(), uint64(size-(stored-3)*packSize+size/50), "what was stored is stored again")

	// Nothing was left unfinished: the packs are not looked through once more.
	lists := sent.Lists.Load()
	_, _, err = e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	unchanged := sent.Lists.Load() - lists
	_, _, err = e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	require.Equal(t, unchanged, sent.Lists.Load()-lists-unchanged)
	require.Less(t, unchanged, lists)
	e.RequireSound()
	e.RequireRestored(src)
}
