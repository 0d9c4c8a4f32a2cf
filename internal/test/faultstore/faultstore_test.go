package faultstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

var (
	one = store.Name{Kind: store.Pack, ID: "01"}
	two = store.Name{Kind: store.Index, ID: "02"}
)

func TestContractWithoutFault(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return faultstore.Wrap(mem.New(), faultstore.Plan{}) })
}

// scenario does one operation of each sort and returns their errors in order.
func scenario(t *testing.T, st store.Store) []error {
	ctx := t.Context()
	errs := []error{st.Put(ctx, one, []byte("abcd")), st.Put(ctx, two, []byte("efgh")),
		st.Get(ctx, one, 0, make([]byte, 2))}
	_, err := st.Stat(ctx, one)
	errs = append(errs, err, nil)
	for _, err := range st.List(ctx, store.Pack) {
		if err != nil {
			errs[4] = err
		}
	}
	return append(errs, st.Delete(ctx, two))
}

func TestEveryOperationFailsOnce(t *testing.T) {
	dry := faultstore.Wrap(mem.New(), faultstore.Plan{})
	for _, err := range scenario(t, dry) {
		require.NoError(t, err)
	}
	require.Equal(t, 6, dry.Matched())
	require.Equal(t, 6, dry.Operations())
	require.False(t, dry.Fired())
	// An unsure effect does its work, so that no later operation fails for lack of it.
	for i := range dry.Matched() {
		st := faultstore.Wrap(mem.New(), faultstore.Plan{At: i + 1, Effect: faultstore.Unsure, Err: store.ErrNoSpace})
		for j, err := range scenario(t, st) {
			if j != i {
				require.NoError(t, err, "fault %d, operation %d", i, j)
				continue
			}
			require.ErrorIs(t, err, faultstore.ErrInjected)
			require.ErrorIs(t, err, store.ErrNoSpace)
		}
		require.True(t, st.Fired())
	}
}

func TestStickyMeansDead(t *testing.T) {
	for i := range 6 {
		st := faultstore.Wrap(mem.New(), faultstore.Plan{At: i + 1, Sticky: true})
		for j, err := range scenario(t, st) {
			if j < i {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, faultstore.ErrInjected, "fault %d, operation %d", i, j)
			}
		}
	}
}

func TestSelection(t *testing.T) {
	st := faultstore.Wrap(mem.New(), faultstore.Plan{At: 1, Kind: store.Index})
	errs := scenario(t, st)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], faultstore.ErrInjected)
	require.Equal(t, 2, st.Matched()) // put and delete of the index file
	st = faultstore.Wrap(mem.New(), faultstore.Plan{At: 1, Ops: faultstore.Stat | faultstore.Delete})
	errs = scenario(t, st)
	require.ErrorIs(t, errs[3], faultstore.ErrInjected)
	require.NoError(t, errs[5])
	require.Equal(t, 2, st.Matched())
}

func TestEffectsOnPut(t *testing.T) {
	for _, c := range []struct {
		effect faultstore.Effect
		failed bool
		left   string // "": no file
	}{
		{faultstore.Refuse, true, ""},
		{faultstore.Unsure, true, "abcd"},
		{faultstore.Torn, true, "ab"},
		{faultstore.Silent, false, "ab"},
		{faultstore.Corrupt, true, ""},
	} {
		inner := mem.New()
		st := faultstore.Wrap(inner, faultstore.Plan{At: 1, Ops: faultstore.Put, Effect: c.effect})
		require.Equal(t, c.failed, st.Put(t.Context(), one, []byte("abcd")) != nil, c)
		info, err := inner.Stat(t.Context(), one)
		if c.left == "" {
			require.ErrorIs(t, err, store.ErrNotExist)
			continue
		}
		p := make([]byte, info.Size)
		require.NoError(t, inner.Get(t.Context(), one, 0, p))
		require.Equal(t, c.left, string(p), c)
	}
}

func TestCorruptGet(t *testing.T) {
	st := faultstore.Wrap(mem.New(), faultstore.Plan{At: 1, Ops: faultstore.Get, Effect: faultstore.Corrupt})
	require.NoError(t, st.Put(t.Context(), one, []byte("abcd")))
	p := make([]byte, 4)
	require.NoError(t, st.Get(t.Context(), one, 0, p))
	require.Equal(t, string(faultstore.Flip([]byte("abcd"), 2)), string(p))
	require.NoError(t, st.Get(t.Context(), one, 0, p))
	require.Equal(t, "abcd", string(p), "only the first Get was planned")
}

func TestListThatEndsInTheMiddle(t *testing.T) {
	inner := mem.New()
	for _, id := range []string{"01", "02", "03", "04", "05"} {
		require.NoError(t, inner.Put(t.Context(), store.Name{Kind: store.Pack, ID: id}, nil))
	}
	for effect, want := range map[faultstore.Effect]int{faultstore.Refuse: 0, faultstore.Partial: 2,
		faultstore.Unsure: 5} {
		st := faultstore.Wrap(inner, faultstore.Plan{At: 1, Ops: faultstore.List, Effect: effect})
		n := 0
		var last error
		for _, err := range st.List(t.Context(), store.Pack) {
			if last = err; err == nil {
				n++
			}
		}
		require.Equal(t, want, n)
		require.ErrorIs(t, last, faultstore.ErrInjected)
	}
}
