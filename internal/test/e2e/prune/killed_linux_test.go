package prune

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestPruneAfterAKilledBackup: a backup is killed when it has stored much. A prune of the same machine gives that space
// back at once. One that has another cache folder, as on another machine, or a target on which a snapshot of the dead
// backup may still arrive, waits.
func TestPruneAfterAKilledBackup(t *testing.T) {
	t.Parallel()
	if dir := kit.Role(); dir != "" {
		e := kit.OpenEngine(t, dir)
		stored := 0
		e.Store = &kit.OnPut{Store: e.Store, OnPack: func() {
			if stored++; stored == 60 {
				kit.Hold()
			}
		}}
		job := e.CrashJob(filepath.Join(dir, "src"))
		job.Session.Uploads = 1
		_, _, err := e.Backup(job)
		require.NoError(t, err)
		return
	}
	dir := testkit.RamDir(t)
	st, err := local.Create(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	p := &kit.Pruned{Engine: kit.NewEngine(t, st), Src: filepath.Join(dir, "src"), Dir: dir,
		Contents: map[format.ID]string{}, Few: true}
	p.Open.Cache.Dir = filepath.Join(dir, "cache")
	require.NoError(t, os.MkdirAll(p.Open.Cache.Dir, 0o700))
	kit.Written(t, p.Src, map[string]string{"small": "small"})
	kit.Settle()
	made, _, err := p.Backup(p.CrashJob(p.Src))
	require.NoError(t, err)
	p.Keep(made.ID)
	live := kit.BytesOf(t, st, store.Pack)
	require.NoError(t, os.WriteFile(filepath.Join(p.Src, "big"), testkit.Noise(1, 16<<20), 0o644))
	require.True(t, kit.Killed(t, dir, 0))
	require.Greater(t, kit.BytesOf(t, st, store.Pack), 100*live)
	require.Equal(t, 1, kit.Count(t, st, store.Lease))

	opt := prune.Options{}
	p.Open.Cache.Dir = t.TempDir()
	res, err := p.Prune(opt)
	require.NoError(t, err)
	require.Len(t, res.Waiting, 1, "with another cache")
	require.False(t, res.Waiting[0].Ended)
	p.Open.Cache.Dir = filepath.Join(dir, "cache")
	p.Store = struct{ store.Store }{st}
	res, err = p.Prune(opt)
	require.NoError(t, err)
	require.Len(t, res.Waiting, 1, "on a target that may do something later")
	require.True(t, res.Waiting[0].Ended)
	p.Store = st
	res, err = p.Prune(opt)
	require.NoError(t, err)
	require.Empty(t, res.Waiting)
	require.Zero(t, kit.Count(t, st, store.Lease))
	require.LessOrEqual(t, kit.BytesOf(t, st, store.Pack), live+live/10)
	p.RequireWhole("after the prune")
}
