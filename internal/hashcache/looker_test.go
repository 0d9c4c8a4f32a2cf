package hashcache

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// A look takes no memory, and what is kept for the next one holds up no change and sees each.
func TestLooksTakeNoMemory(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1), id(2)}))
	remember(t, c, 1, 0, 3000)
	room := make([]byte, 0, 64)
	// None, but one under the race detector, for which less is inlined; a transaction for each look took eleven.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		hit, ok, err := c.Dir(key(7), room)
		if err != nil || !ok || len(hit.Value) != 64 || &hit.Value[0] != &room[:1][0] {
			t.Fatal("not found, or not in its room")
		}
	}), 1.0)
	require.Len(t, c.lookers.free, 1)
	require.Equal(t, 1, c.db.Stats().OpenTxN)

	require.NoError(t, c.update("look around", func(*bolt.Tx) error {
		require.Empty(t, c.lookers.free)
		require.Zero(t, c.db.Stats().OpenTxN)
		_, ok, err := c.Dir(key(7), room)
		require.NoError(t, err)
		require.True(t, ok)
		require.Empty(t, c.lookers.free, "it would not see the change")
		return nil
	}))
	_, ok, err := c.Dir(key(5000), room)
	require.NoError(t, err)
	require.False(t, ok)
	remember(t, c, 2, 5000, 1)
	_, ok, err = c.Dir(key(5000), room)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, c.Close(), "although one is kept")
}

// Many look while the file changes.
func TestLooksBesideChanges(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1), id(2), id(3)}))
	remember(t, c, 1, 0, 500)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 3000 {
				_, ok, err := c.Dir(key((i*7+w)%500), nil)
				if err != nil || !ok {
					t.Errorf("directory %d: %v, %v", (i*7+w)%500, ok, err)
					return
				}
			}
		})
	}
	for i := range 10 {
		remember(t, c, 2+i%2, 1000*(i+1), 1000)
	}
	all.Wait()
	for _, i := range []int{0, 1000, 10_999} {
		_, ok, err := c.Dir(key(i), nil)
		require.NoError(t, err)
		require.True(t, ok, i)
	}
	require.LessOrEqual(t, c.db.Stats().OpenTxN, 4)
}
