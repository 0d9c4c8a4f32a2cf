package repo_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestAListingSparesLooks: packs that the listing of a session shows whole are not looked at one by one. All
// are once one cannot be used.
func TestAListingSparesLooks(t *testing.T) {
	st, data := mem.New(), blobs(1, 60)
	r := initialise(t, st)
	mustBackUp(t, r, data)
	packs := names(t, st, store.Pack)
	require.GreaterOrEqual(t, len(packs), 3)
	h := r.Keys().Hasher()
	looks := func(before func(ctx context.Context, s *repo.Session), want int) {
		t.Helper()
		stats := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Stat, Kind: store.Pack})
		with := fresh(t, stats)
		defer func() { require.NoError(t, with.Close()) }()
		_ = with.WithSession(t.Context(), small(), func(ctx context.Context, s *repo.Session) error {
			before(ctx, s)
			was := stats.Matched()
			for i := range data {
				_, err := s.Holds(ctx, []format.ID{h.ID(data[i])})
				require.NoError(t, err)
			}
			require.Equal(t, want, stats.Matched()-was)
			return errors.New("enough")
		})
	}
	list := func(ctx context.Context, s *repo.Session) {
		_, err := s.LostPacks(ctx)
		require.NoError(t, err)
	}
	holders := make(map[format.ID]bool) // packs of data
	for i := range data {
		var found [1]blobindex.Found
		require.NoError(t, r.Locate(t.Context(), []format.ID{h.ID(data[i])}, found[:]))
		holders[found[0].Pack.ID] = true
	}
	looks(func(context.Context, *repo.Session) {}, len(holders))
	looks(list, 0)
	looks(func(ctx context.Context, s *repo.Session) {
		list(ctx, s)
		s.StopUsing(format.ID{1})
	}, len(holders))
}
