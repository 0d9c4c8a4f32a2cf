package roundtrip

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// gets counts the reads of a store by kind of file.
type gets struct {
	store.Store
	mu    sync.Mutex
	files map[store.Kind]int
}

func (g *gets) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	g.mu.Lock()
	g.files[name.Kind]++
	g.mu.Unlock()
	return g.Store.Get(ctx, name, off, p)
}

// VerifiesPut: it verifies what it stores, as a share does.
func (g *gets) VerifiesPut() bool { return true }

// of counts the reads of fn.
func (g *gets) of(t *testing.T, fn func() error) (all, snapshots int) {
	t.Helper()
	g.files = map[store.Kind]int{}
	require.NoError(t, fn())
	for _, n := range g.files {
		all += n
	}
	return all, g.files[store.Snapshot]
}

// TestSnapshotsAreReadOnce: of 35 snapshots that others made, the first command of a machine reads each, and later ones
// read none, whatever they do with them. What is read of the target besides does not grow with them.
func TestSnapshotsAreReadOnce(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := filepath.Join(testkit.RamDir(t), "src")
	smallFiles(t, dir, 50)
	st := &gets{Store: mem.New()}
	st.files = map[store.Kind]int{}
	e := kit.NewEngine(t, st)
	backup := func() error {
		_, _, err := e.Backup(e.Job(dir))
		return err
	}
	for range 34 {
		require.NoError(t, backup())
	}
	all, snapshots := st.of(t, backup)
	t.Logf("on the machine that made them: %d", all)
	require.Zero(t, snapshots)
	require.LessOrEqual(t, all, 4)

	e.Open.Cache.Dir = testkit.RamDir(t)
	all, snapshots = st.of(t, backup)
	t.Logf("on another machine: %d", all)
	require.Equal(t, 35, snapshots)
	all, snapshots = st.of(t, backup)
	t.Logf("the second time: %d", all)
	require.Zero(t, snapshots)
	require.LessOrEqual(t, all, 4)
	_, snapshots = st.of(t, func() error {
		return e.With(func(r *repo.Repository) error {
			_, err := r.FindSnapshot(t.Context(), repo.Latest, repo.Filter{})
			require.NoError(t, err)
			listed, err := r.Snapshots(t.Context())
			require.NoError(t, err)
			require.Len(t, listed, 37)
			_, _, err = forget.Drop(t.Context(), r, listed[:10])
			require.NoError(t, err)
			if _, err = prune.Run(t.Context(), r, kit.SmallPrune()); err == nil {
				listed, err = r.Snapshots(t.Context())
			}
			require.Len(t, listed, 27, "the listing decides which exist")
			return err
		})
	})
	require.Zero(t, snapshots)
}
