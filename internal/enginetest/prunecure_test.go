package enginetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
)

// A mark that says nothing any more keeps backups from running, as nobody knows what they may rely on; a prune takes it
// away, and only then.
func TestPruneTakesADamagedMarkAway(t *testing.T) {
	ctx := context.Background()
	p := newPruned(t, mem.New())
	first := p.snapshot(1)
	p.snapshot(2)
	name := store.Name{Kind: store.Mark, ID: first.String()} // no bytes have that hash
	require.NoError(t, p.st.Put(ctx, name, []byte("this was a mark once")))
	_, _, err := p.backup(p.smallJob())
	require.ErrorIs(t, err, marks.ErrDamaged)

	p.forget(first)
	dry := smallPrune()
	dry.DryRun = true
	_, err = p.prune(dry)
	require.ErrorIs(t, err, marks.ErrDamaged)
	_, err = p.st.Stat(ctx, name)
	require.NoError(t, err, "a dry run takes nothing away")

	res, err := p.prune(smallPrune())
	require.NoError(t, err)
	require.NotZero(t, res.Deleted.Packs)
	_, err = p.st.Stat(ctx, name)
	require.ErrorIs(t, err, store.ErrNotExist)
	p.requireWhole("after it was taken away")
	p.snapshot(3)
	p.requireWhole("after another backup")
}

// A damaged segment whose place others have taken is in nobody's way, and goes with the next prune.
func TestPrunePassesOverADamagedSegmentThatIsReplaced(t *testing.T) {
	ctx := context.Background()
	p := newPruned(t, mem.New())
	first := p.snapshot(1)
	p.snapshot(2)
	var damaged store.Name
	for _, name := range everyFile(t, p.st) {
		if name.Kind == store.Index {
			damaged = name
		}
	}
	data := load(t, p.st, damaged)
	require.NoError(t, p.st.Delete(ctx, damaged))
	require.NoError(t, p.st.Put(ctx, damaged, data[:len(data)/2]))
	p.open.CacheDir, p.open.NoCache = "", true // which would know what it named
	p.snapshot(3)                              // names its packs anew
	p.requireWhole("a segment was replaced")
	p.forget(first)
	_, err := p.prune(smallPrune())
	require.NoError(t, err)
	p.requireWhole("after the prune")
	_, err = p.st.Stat(ctx, damaged)
	require.ErrorIs(t, err, store.ErrNotExist)
}
