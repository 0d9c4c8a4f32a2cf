package prune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// A file that is no mark has the name of one: backups continue beside it, and a prune removes it.
func TestPruneTakesADamagedMarkAway(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := context.Background()
	p := kit.NewPruned(t, mem.New())
	first := p.Snapshot(1)
	p.Snapshot(2)
	name := store.Name{Kind: store.Mark, ID: first.String()} // no bytes have that hash
	require.NoError(t, p.Store.Put(ctx, name, []byte("this was a mark once")))
	p.Snapshot(4)
	p.RequireRestorable("beside a damaged mark", true)

	p.Forget(first)
	dry := kit.SmallPrune()
	dry.DryRun = true
	_, err := p.Prune(dry)
	require.ErrorIs(t, err, marks.ErrDamaged)
	_, err = p.Store.Stat(ctx, name)
	require.NoError(t, err, "a dry run takes nothing away")

	res, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	require.NotZero(t, res.Deleted.Packs)
	_, err = p.Store.Stat(ctx, name)
	require.ErrorIs(t, err, store.ErrNotExist)
	p.RequireWhole("after it was taken away")
	p.Snapshot(3)
	p.RequireWhole("after another backup")
}

// A damaged segment that others have replaced blocks nothing, and goes with the next prune.
func TestPrunePassesOverADamagedSegmentThatIsReplaced(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := context.Background()
	p := kit.NewPruned(t, mem.New())
	first := p.Snapshot(1)
	p.Snapshot(2)
	var damaged store.Name
	for _, name := range kit.EveryFile(t, p.Store) {
		if name.Kind == store.Index {
			damaged = name
		}
	}
	data := kit.Load(t, p.Store, damaged)
	require.NoError(t, p.Store.Delete(ctx, damaged))
	require.NoError(t, p.Store.Put(ctx, damaged, data[:len(data)/2]))
	p.Open.Cache.Dir, p.Open.Cache.Temporary = "", true // a cache would list the names
	p.Snapshot(3)                                       // names its packs in a new segment
	p.RequireWhole("a segment was replaced")
	p.Forget(first)
	_, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	p.RequireWhole("after the prune")
	_, err = p.Store.Stat(ctx, damaged)
	require.ErrorIs(t, err, store.ErrNotExist)
}
