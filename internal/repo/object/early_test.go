package object_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
)

func storeFiles(t *testing.T, st store.Store, kind store.Kind, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: kind, ID: fmt.Sprintf("%064x", i)}, []byte("x")))
	}
}

func listed(ctx context.Context, t *testing.T, st store.Store, kind store.Kind) (n int) {
	t.Helper()
	for _, err := range object.Each(ctx, st, kind) {
		require.NoError(t, err)
		n++
	}
	return n
}

// TestEarlyListingsAreTakenOnce: what is put after them shows in the next listing.
func TestEarlyListingsAreTakenOnce(t *testing.T) {
	st := mem.New()
	storeFiles(t, st, store.Index, 0, 3)
	storeFiles(t, st, store.Snapshot, 0, 5)
	storeFiles(t, st, store.Pack, 0, 5432) // several batches
	e := object.ListEarly(t.Context(), st, store.Index, store.Pack, store.Snapshot)
	defer e.Stop()
	for range 2 { // each user has its own
		require.Equal(t, 5, listed(e.In(t.Context(), store.Snapshot), t, st, store.Snapshot))
		ctx := e.In(t.Context(), store.Index)
		require.Equal(t, 3, listed(ctx, t, st, store.Index))
		require.Zero(t, listed(ctx, t, st, store.Mark), "it was not listed early")
	}
	ctx, index := e.In(t.Context(), store.Pack), e.In(t.Context(), store.Index)
	none, err := object.NoPacks(ctx, st)
	require.NoError(t, err)
	require.False(t, none)
	require.Equal(t, 5432, listed(ctx, t, st, store.Pack))
	storeFiles(t, st, store.Pack, 5432, 5433)
	storeFiles(t, st, store.Index, 3, 4)
	require.Equal(t, 5433, listed(ctx, t, st, store.Pack))
	require.Equal(t, 5433, listed(e.In(t.Context(), store.Pack), t, st, store.Pack), "no other user can take the packs")
	require.Equal(t, 3, listed(index, t, st, store.Index))
	require.Equal(t, 4, listed(index, t, st, store.Index))
	var nothing *object.Early
	nothing.Stop()
	require.Equal(t, 4, listed(nothing.In(t.Context(), store.Index), t, st, store.Index))
}

// unordered is a store that lists a file of the first kind after one of the second.
type unordered struct{ *mem.Store }

func (*unordered) Together() store.Lister {
	return func(_ context.Context, kinds ...store.Kind) iter.Seq2[store.Info, error] {
		return func(yield func(store.Info, error) bool) {
			for _, kind := range []store.Kind{kinds[0], kinds[1], kinds[0]} {
				if !yield(store.Info{Name: store.Name{Kind: kind, ID: fmt.Sprintf("%064x", 1)}}, nil) {
					return
				}
			}
		}
	}
}

// TestEarlyListingsEnd: packs that are not taken hold nothing up, and the error of a listing reaches who takes it.
func TestEarlyListingsEnd(t *testing.T) {
	st := mem.New()
	storeFiles(t, st, store.Pack, 0, 9000)
	e := object.ListEarly(t.Context(), st, store.Index, store.Pack)
	e.Stop()
	ctx := e.In(t.Context(), store.Pack)
	for _, err := range object.Each(ctx, st, store.Pack) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	failure := errors.New("failure")
	for _, kind := range []store.Kind{store.Index, store.Pack} {
		odd := faultstore.Wrap(mem.New(), faultstore.Plan{At: 1, Kind: kind, Err: failure})
		e := object.ListEarly(t.Context(), odd, store.Index, store.Pack)
		var failed error
		for _, err := range object.Each(e.In(t.Context(), kind), odd, kind) {
			failed = err
		}
		require.ErrorIs(t, failed, failure)
		if kind == store.Pack {
			_, err := object.NoPacks(e.In(t.Context(), store.Index), odd)
			require.ErrorIs(t, err, failure)
		}
		e.Stop()
	}
	early := object.ListEarly(t.Context(), &unordered{mem.New()}, store.Index, store.Mark, store.Snapshot)
	defer early.Stop()
	var last error
	for _, err := range object.Each(early.In(t.Context(), store.Mark), st, store.Mark) {
		last = err
	}
	require.ErrorContains(t, last, "in no order", "it ends with an error, not early")
	empty := object.ListEarly(t.Context(), mem.New(), store.Pack)
	defer empty.Stop()
	none, err := object.NoPacks(empty.In(t.Context(), store.Index), st)
	require.NoError(t, err)
	require.True(t, none, "there was none when the listing began")
}
