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

// TestUnique: what only some snapshots need is what the blobs of all snapshots are more than those of the others, and
// about what a prune without these snapshots frees.
func TestUnique(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	var ids []format.ID
	for i := range uint64(testkit.Rounds(4, 5, 8)) {
		ids = append(ids, p.Snapshot(i))
	}
	unique := func(ids ...format.ID) (u prune.Usage) {
		require.NoError(t, p.With(func(r *repo.Repository) (err error) {
			u, err = prune.Unique(t.Context(), r, kit.SmallPrune(), ids)
			return err
		}))
		return u
	}
	raw := func(without ...format.ID) (blobs, bytes uint64) {
		require.NoError(t, p.With(func(r *repo.Repository) error {
			listed, err := r.Snapshots(t.Context())
			require.NoError(t, err)
			var trees []format.ID
			for _, l := range listed {
				if !slices.Contains(without, l.ID) {
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
	last := ids[len(ids)-2:]
	allBlobs, allBytes := raw()
	sets := [][]format.ID{last, {last[0], last[0]}, ids}
	for _, id := range ids {
		sets = append(sets, []format.ID{id})
	}
	for _, set := range sets {
		own := unique(set...)
		blobs, bytes := raw(set...)
		require.Equal(t, allBlobs-blobs, own.Blobs)
		require.Equal(t, allBytes-bytes, own.Raw)
	}
	require.Greater(t, unique(last...).Blobs, unique(last[0]).Blobs+unique(last[1]).Blobs, "what only these two share")

	own := unique(last...)
	require.NotZero(t, own.Stored)
	before := kit.BytesOf(t, p.Store, store.Pack)
	p.Forget(last[0])
	p.Forget(last[1])
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{}
	_, err := p.Prune(opt)
	require.NoError(t, err)
	freed := before - kit.BytesOf(t, p.Store, store.Pack)
	require.InEpsilon(t, own.Stored, freed, 0.25, "the rest is tables of packs and new frames")

	err = p.With(func(r *repo.Repository) error {
		_, err := prune.Unique(t.Context(), r, prune.Options{}, last)
		return err
	})
	require.True(t, errors.Is(err, repo.ErrNoSnapshot), "%v", err)
}
