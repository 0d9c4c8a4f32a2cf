package damage

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func packsIn(t *testing.T, st store.Store) map[store.Name][]byte {
	t.Helper()
	packs := map[store.Name][]byte{}
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		p := make([]byte, info.Size)
		require.NoError(t, st.Get(t.Context(), info.Name, 0, p))
		packs[info.Name] = p
	}
	return packs
}

func removePacks(t *testing.T, st store.Store, packs map[store.Name][]byte) {
	t.Helper()
	for name := range packs {
		require.NoError(t, st.Delete(t.Context(), name))
	}
}

// TestOlderPacksComeBack: the packs of a repository are away for a while, and a backup meanwhile stores everything
// again. Then its packs are lost and the older ones are back. What a check reports as sound can be restored, without
// repeated requests for the lost packs, and further backups succeed.
func TestOlderPacksComeBack(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	kit.WithCopies(t, src)
	kit.Settle()
	e := kit.NewEngine(t, mem.New())
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	old := packsIn(t, e.Store)
	removePacks(t, e.Store, old)
	job := e.Job(src)
	job.Source.Comparing.Force = true
	out, _, err := e.Backup(job)
	require.NoError(t, err)
	// What lies above src may have changed, which only this snapshot and its packs hold.
	require.NoError(t, e.With(func(r *repo.Repository) error {
		_, _, err := forget.Drop(t.Context(), r, []repo.Listed{{ID: out.ID}})
		return err
	}))
	lost := packsIn(t, e.Store)
	removePacks(t, e.Store, lost)
	for name, data := range old {
		require.NoError(t, e.Store.Put(t.Context(), name, data))
	}

	known := e.Open
	for name, open := range map[string]repo.OpenOptions{
		"with the cache": known, "with a new cache": kit.OpenOptions(testkit.RamDir(t)),
		"without": {Unlock: known.Unlock, Cache: repo.CacheOptions{Temporary: true}},
	} {
		counted := faultstore.Wrap(e.Store, faultstore.Plan{})
		c := *e
		c.Open, c.Store = open, counted
		dst := filepath.Join(dir, "dst")
		_, err := c.Alone(src, kit.Target(filepath.Join(dst, name)))
		require.NoError(t, err, name)
		require.Empty(t, c.Failures(), name)
		require.Empty(t, testkit.Compare(context.Background(), src, filepath.Join(dst, name), testkit.CompareOptions{}), name)
		reads := counted.Reads()
		for id := range lost {
			require.LessOrEqual(t, reads[id], 2, "%s: %s", name, id)
		}
	}
	e.RequireSound()
	e.RequireEverySnapshotReadable(src)

	p := &kit.Pruned{Engine: &kit.Engine{T: t, Store: kit.CopyOf(t, e.Store), Parallel: e.Parallel,
		Open: kit.OpenOptions(testkit.RamDir(t))}}
	_, err = p.Prune(prune.Options{})
	require.NoError(t, err)
	p.RequireSound()
	p.RequireEverySnapshotReadable(src)

	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	e.RequireSound()
	e.RequireRestored(src)
}
