package prune

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestForgetBetweenAnyTwoStepsOfPutBack forgets a damaged snapshot and prunes what it needed, on the machine that
// published it, before each step of a backup of another one that puts it back from a copy: it does not come back.
func TestForgetBetweenAnyTwoStepsOfPutBack(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	lost := base.Snapshot(1)
	base.Snapshot(2)
	name := store.Name{Kind: store.Snapshot, ID: lost.String()}
	made := base.Open.Cache.Dir
	base.Open.Cache.Dir = t.TempDir()
	require.NoError(t, base.With(func(r *repo.Repository) error { // the other machine reads it
		_, err := r.Snapshots(t.Context())
		return err
	}))
	require.NoError(t, base.Store.Put(t.Context(), name, kit.Load(t, base.Store, name)[:100]))
	for n := 1; ; n += testkit.Rounds(3, 2, 1) {
		p := base.Copied(t)
		require.NoError(t, os.CopyFS(p.Open.Cache.Dir, os.DirFS(base.Open.Cache.Dir))) // with the copies
		inner := p.Store
		st, count := at(inner, n, func() {
			other := p.Elsewhere(inner)
			if err := os.CopyFS(other.Open.Cache.Dir, os.DirFS(made)); err != nil {
				t.Error(err)
			}
			if err := other.With(func(r *repo.Repository) error {
				_, _, err := forget.Drop(context.Background(), r, []repo.Listed{{ID: lost}})
				return err
			}); err != nil {
				t.Errorf("forget before step %d: %v", n, err)
			}
			delete(p.Contents, lost)
			for range 2 {
				if _, err := other.Prune(kit.SmallPrune()); err != nil {
					t.Errorf("prune before step %d: %v", n, err)
				}
			}
		})
		p.Store = st
		out, _, err := p.Backup(p.SmallJob())
		p.Store = inner
		require.NoError(t, err, "before step %d", n)
		require.False(t, t.Failed())
		p.Keep(out.ID)
		p.RequireRestorable(fmt.Sprintf("forgotten before step %d of %d", n, *count), true)
		_, err = p.Prune(kit.SmallPrune())
		require.NoError(t, err)
		p.RequireWhole(fmt.Sprintf("pruned after it was forgotten before step %d", n))
		if n > *count {
			require.Len(t, out.PutBack, 1)
			return
		}
	}
}
