package damage

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// slowLists lists packs late: a backup waits for a quarter of a second for them before it begins.
type slowLists struct{ store.Store }

func (s slowLists) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if kind == store.Pack {
			_ = store.Sleep(ctx, time.Second) // the listing below fails if ctx has ended
		}
		s.Store.List(ctx, kind)(yield)
	}
}

// TestLostPacksAreFoundBesideTheBackup: the listing of the packs takes longer than the backup. What it finds lost is
// stored again all the same, before the snapshot is saved.
func TestLostPacksAreFoundBesideTheBackup(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Few = true
	p.Snapshot(1)
	kit.Settle()
	for _, name := range packsOf(p, pack.Data) {
		require.NoError(t, p.Store.Delete(context.Background(), name))
	}
	inner := p.Store
	p.Store = slowLists{inner}
	out, _, err := p.Backup(p.SmallJob())
	p.Store = inner
	require.NoError(t, err)
	require.NotZero(t, out.Mended)
	p.Keep(out.ID)
	requireNewestRestores(p, "healed")
	require.Equal(t, 1, kit.Count(t, p.Store, store.Snapshot)-1)
}
