package damage

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// segmentsRead returns how many of the index segments that are there a backup reads.
func segmentsRead(p *kit.Pruned) (n int) {
	p.T.Helper()
	inner := p.Store
	before := kit.EveryFile(p.T, inner)
	counting := faultstore.Wrap(inner, faultstore.Plan{})
	p.Store = counting
	out, _, err := p.Backup(p.SmallJob())
	p.Store = inner
	require.NoError(p.T, err)
	p.Keep(out.ID)
	reads := counting.Reads()
	for _, name := range before {
		if name.Kind == store.Index && reads[name] > 0 {
			n++
		}
	}
	return n
}

// TestBackupWritesDamagedIndexSegmentsAgain: index segments are missing, empty, cut off, or have flipped bits that a
// check has found, and the local cache has their content. The next backup of this machine replaces them, so that
// another machine can restore everything, and later backups read the index no more than before.
func TestBackupWritesDamagedIndexSegmentsAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	all := harms()
	all["flipped bits"] = func(t *testing.T, st store.Store, name store.Name) {
		data := kit.Load(t, st, name)
		data[len(data)/2] ^= 4
		require.NoError(t, st.Put(context.Background(), name, data))
	}
	for name, harm := range all {
		for _, every := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all of them %v", name, every), func(t *testing.T) {
				p := kit.NewPruned(t, mem.New())
				p.Few = true
				p.Snapshot(1)
				p.Snapshot(2)
				require.Zero(t, segmentsRead(p), "the cache has them")
				harmed := 0
				for _, file := range kit.EveryFile(t, p.Store) {
					if file.Kind == store.Index && (every || harmed == 0) {
						harm(t, p.Store, file)
						harmed++
					}
				}
				if name == "flipped bits" {
					require.False(t, checkAndRecord(p).OK())
					require.Equal(t, 1, kit.Count(t, p.Store, store.Mark))
					require.False(t, checkAndRecord(p).OK())
					require.Equal(t, 1, kit.Count(t, p.Store, store.Mark), "what is known is not recorded again")
				}
				require.NoError(t, p.With(func(r *repo.Repository) error {
					res, err := repair.Packs(context.Background(), r, nil, repo.SessionOptions{DryRun: true})
					require.NoError(t, err)
					require.Empty(t, res.Packs, "a marked segment is no pack")
					return nil
				}))
				p.Snapshot(3)
				p.RequireWhole("after a backup")
				require.Zero(t, segmentsRead(p), "what is healed is not read again")
				p.RequireWhole("after another one")
				_, err := p.Prune(kit.SmallPrune())
				require.NoError(t, err)
				require.Zero(t, kit.Count(t, p.Store, store.Mark))
				p.RequireWhole("after a prune")
			})
		}
	}
}
