package object_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func keys(t *testing.T) *seal.Keys {
	t.Helper()
	k := seal.Derive(seal.MasterKey{1})
	return k
}

func TestRoundTrip(t *testing.T) {
	st, k := mem.New(), keys(t)
	for _, kind := range []store.Kind{store.Index, store.Snapshot, store.Mark} {
		data, id := object.Seal(k, kind, []byte("content"))
		name := object.Named(kind, id)
		require.NoError(t, object.Put(t.Context(), st, name, data, true))
		for _, size := range []int64{-1, int64(len(data))} {
			plain, err := object.Load(t.Context(), st, k, name, size)
			require.NoError(t, err)
			require.Equal(t, "content", string(plain))
		}
		for _, listed := range []int{len(data) - 1, len(data) + 1} {
			plain, err := object.Load(t.Context(), st, k, name, int64(listed))
			require.NoError(t, err, "the listing was wrong, and the second look is right")
			require.Equal(t, "content", string(plain))
		}
	}
	require.Panics(t, func() { object.Seal(k, store.Pack, nil) }, "packs are sealed by package pack")
	_, err := object.Load(t.Context(), st, k, object.Named(store.Key, format.ID{}), -1)
	require.Error(t, err)
}

func TestLoadRefuses(t *testing.T) {
	st, k := mem.New(), keys(t)
	data, id := object.Seal(k, store.Index, []byte("content"))
	_, err := object.Load(t.Context(), st, k, object.Named(store.Index, id), -1)
	require.ErrorIs(t, err, store.ErrNotExist)

	other := object.Named(store.Index, format.ID{1})
	require.NoError(t, st.Put(t.Context(), other, data))
	_, err = object.Load(t.Context(), st, k, other, -1)
	require.ErrorIs(t, err, format.ErrCorrupt, "right bytes under a wrong name")
	require.ErrorContains(t, err, other.Path())

	as := object.Named(store.Snapshot, id)
	require.NoError(t, st.Put(t.Context(), as, data))
	_, err = object.Load(t.Context(), st, k, as, -1)
	require.ErrorIs(t, err, format.ErrCorrupt, "a segment passed off as a snapshot")

	_, err = object.ReadFile(t.Context(), st, as, object.MaxSize+1)
	require.ErrorIs(t, err, format.ErrCorrupt, "before anything is allocated")
}

func TestPutVerifies(t *testing.T) {
	data := []byte("some bytes")
	name := object.Named(store.Key, seal.FileID(data))
	for _, plan := range []faultstore.Plan{
		{At: 1, Ops: faultstore.Put, Effect: faultstore.Silent},
		{At: 1, Ops: faultstore.Get, Effect: faultstore.Corrupt},
	} {
		st := faultstore.Wrap(mem.New(), plan)
		require.ErrorIs(t, object.Put(t.Context(), st, name, data, true), format.ErrCorrupt)
		require.True(t, st.Fired())
	}
	require.NoError(t, object.Put(t.Context(), mem.New(), name, data, true))
}

// TestDeniedAccessIsNoDamage: what cannot be read may be intact.
func TestDeniedAccessIsNoDamage(t *testing.T) {
	data := []byte("some bytes")
	id := seal.FileID(data)
	for _, op := range []faultstore.Op{faultstore.Stat, faultstore.Get} {
		st := mem.New()
		require.NoError(t, st.Put(t.Context(), object.Named(store.Pack, id), data))
		refused := faultstore.Wrap(st, faultstore.Plan{At: 1, Ops: op, Sticky: true, Err: store.ErrDenied})
		damaged, err := object.StillDamaged(t.Context(), refused, []format.ID{id})
		require.ErrorIs(t, err, store.ErrDenied)
		require.Empty(t, damaged)
	}
}

func TestInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 3, 100} {
		var got []int
		var loaded, most atomic.Int32
		err := object.InOrder(t.Context(), n, 4,
			func(_ context.Context, i int) (int, error) {
				now := loaded.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				return i * i, nil
			},
			func(i, v int) error {
				require.Equal(t, i*i, v)
				got = append(got, i)
				loaded.Add(-1)
				return nil
			})
		require.NoError(t, err)
		require.Len(t, got, n)
		require.True(t, slices.IsSorted(got))
		require.LessOrEqual(t, most.Load(), int32(4))
	}
}

// Whichever step fails, everything ends, and the first error is the one returned.
func TestInOrderErrors(t *testing.T) {
	broken := errors.New("broken")
	load := func(_ context.Context, i int) (int, error) { return i, nil }
	use := func(int, int) error { return nil }
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) { // fails if a goroutine stays
			err := object.InOrder(t.Context(), 10, 2, func(ctx context.Context, j int) (int, error) {
				if i == j {
					return 0, broken
				}
				return load(ctx, j)
			}, use)
			require.ErrorIs(t, err, broken)
			err = object.InOrder(t.Context(), 10, 2, load, func(j, _ int) error {
				if i == j {
					return broken
				}
				return nil
			})
			require.ErrorIs(t, err, broken)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	require.ErrorIs(t, object.InOrder(ctx, 10, 2, load, use), broken)
}
