package meter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return meter.Wrap(mem.New(), new(meter.Counters).Observe) })
}

func TestCounts(t *testing.T) {
	ctx := t.Context()
	var c meter.Counters
	st := meter.Wrap(mem.New(), c.Observe)
	name := store.Name{Kind: store.Pack, ID: "ab"}
	require.NoError(t, st.Put(ctx, name, make([]byte, 100)))
	require.NoError(t, st.Put(ctx, name, make([]byte, 20)))
	require.Error(t, st.Put(ctx, store.Name{}, make([]byte, 7)))
	require.NoError(t, st.Get(ctx, name, 5, make([]byte, 15)))
	require.Error(t, st.Get(ctx, name, 6, make([]byte, 15)))
	_, err := st.Stat(ctx, name)
	require.NoError(t, err)
	for range st.List(ctx, store.Pack) {
		break
	}
	for range st.List(ctx, 99) {
	}
	st.List(ctx, store.Pack) // never run: nothing happened
	require.NoError(t, st.Delete(ctx, name))
	require.Error(t, st.Delete(ctx, name))
	require.Equal(t, uint64(120), c.BytesPut.Load())
	require.Equal(t, uint64(15), c.BytesGot.Load())
	require.Equal(t, []uint64{3, 2, 1, 2, 2, 4}, []uint64{
		c.Puts.Load(), c.Gets.Load(), c.Stats.Load(), c.Lists.Load(), c.Deletes.Load(), c.Failed.Load(),
	})
	require.Equal(t, uint64(10), c.Operations())
	require.Equal(t, "memory", st.Location())
}
