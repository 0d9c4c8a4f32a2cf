package prune

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestUnique: what only one snapshot needs is what the blobs of all snapshots are more than those of the others, and
// about what a prune without that snapshot frees.
func TestUnique(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	var ids []format.ID
	for i := range uint64(testkit.Rounds(4, 5, 8)) {
		ids = append(ids, p.Snapshot(i))
	}
	ids = append(ids, ids[len(ids)-1]) // the same twice
	unique := func(ids ...format.ID) (all []prune.Usage) {
		require.NoError(t, p.With(func(r *repo.Repository) (err error) {
			all, err = prune.Unique(t.Context(), r, kit.SmallPrune(), ids)
			return err
		}))
		return all
	}
	raw := func(without format.ID) (blobs, bytes uint64) {
		require.NoError(t, p.With(func(r *repo.Repository) error {
			listed, err := r.Snapshots(t.Context())
			require.NoError(t, err)
			var trees []format.ID
			for _, l := range listed {
				if l.ID != without {
					trees = append(trees, l.Snapshot.Tree)
				}
			}
			s, err := browse.Stats(t.Context(), r, browse.RawData, trees)
			require.NoError(t, err)
			blobs, bytes = s.Blobs, s.Bytes
			return nil
		}))
		return blobs, bytes
	}
	together := unique(ids...)
	require.Len(t, together, len(ids))
	allBlobs, allBytes := raw(format.ID{})
	for i, id := range ids {
		require.Equal(t, together[i], unique(id)[0], "alone or with others")
		blobs, bytes := raw(id)
		require.Equal(t, allBlobs-blobs, together[i].Blobs)
		require.Equal(t, allBytes-bytes, together[i].Raw)
	}

	last := ids[len(ids)-1]
	require.NotZero(t, together[len(ids)-1].Stored)
	before := kit.BytesOf(t, p.Store, store.Pack)
	p.Forget(last)
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{}
	_, err := p.Prune(opt)
	require.NoError(t, err)
	freed := before - kit.BytesOf(t, p.Store, store.Pack)
	require.InEpsilon(t, together[len(ids)-1].Stored, freed, 0.25, "the rest is tables of packs and new frames")

	err = p.With(func(r *repo.Repository) error {
		_, err := prune.Unique(t.Context(), r, prune.Options{}, slices.Clone(ids))
		return err
	})
	require.True(t, errors.Is(err, repo.ErrNoSnapshot), "%v", err)
}
