package damage

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestDamagedSnapshotIsPutBack by the next backup of a machine that has a copy. Another machine reports it. A machine
// with a copy reads a snapshot again if its size has changed, so that it notices flipped bits after a check only.
func TestDamagedSnapshotIsPutBack(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	all := harms()
	delete(all, "missing")
	all["flipped bits"] = func(t *testing.T, st store.Store, name store.Name) {
		data := kit.Load(t, st, name)
		data[len(data)/2] ^= 4
		require.NoError(t, st.Put(context.Background(), name, data))
	}
	for name, harm := range all {
		t.Run(name, func(t *testing.T) {
			p := kit.NewPruned(t, mem.New())
			p.Few = true
			lost := []format.ID{p.Snapshot(1), p.Snapshot(2)}
			for _, id := range lost {
				harm(t, p.Store, store.Name{Kind: store.Snapshot, ID: id.String()})
			}
			was := p.Open.Cache.Dir
			p.Open.Cache.Dir = t.TempDir()
			out, _, err := p.Backup(p.SmallJob())
			require.NoError(t, err)
			require.ElementsMatch(t, lost, out.Damaged, "another machine has no copies")
			require.Empty(t, out.PutBack)
			p.Keep(out.ID)

			p.Open.Cache.Dir = was
			if name == "flipped bits" {
				out, _, err = p.Backup(p.SmallJob())
				require.NoError(t, err)
				require.Empty(t, out.PutBack, "not read again")
				p.Keep(out.ID)
				require.Len(t, p.Problems(), 2)
			}
			dry := p.SmallJob()
			dry.Session.DryRun = true
			out, _, err = p.Backup(dry)
			require.NoError(t, err)
			require.ElementsMatch(t, lost, out.Damaged, "a dry run writes nothing")
			out, _, err = p.Backup(p.SmallJob())
			require.NoError(t, err)
			require.ElementsMatch(t, lost, out.PutBack)
			require.Empty(t, out.Damaged)
			p.Keep(out.ID)
			p.RequireWhole("after they were put back")
			require.NoError(t, p.With(func(r *repo.Repository) error {
				found, err := r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
				require.NoError(t, err)
				require.Empty(t, found.Unread)
				return nil
			}))
			out, _, err = p.Backup(p.SmallJob())
			require.NoError(t, err)
			require.Empty(t, out.PutBack)
			p.Keep(out.ID)
			_, err = p.Prune(kit.SmallPrune())
			require.NoError(t, err)
			p.RequireWhole("after a prune")
		})
	}
}
