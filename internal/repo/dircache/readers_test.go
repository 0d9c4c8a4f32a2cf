package dircache

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// idle returns the number of open read transactions of a cache that is not in use.
func idle(t *testing.T, c *Cache) (n int) {
	require.NoError(t, c.View("count transactions", func(tx *bolt.Tx) error {
		n = tx.DB().Stats().OpenTxN - 1
		return nil
	}))
	return n
}

// A lookup allocates nothing. Idle read transactions delay no change, and lookups see each change.
func TestLookupsAllocateNothing(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1), id(2)}))
	remember(t, c, 1, 0, 3000)
	buffer := make([]byte, 0, 64)
	// None, but one under the race detector, for which less is inlined; a transaction for each look took eleven.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		hit, ok, err := c.Lookup(key(7), buffer)
		if err != nil || !ok || len(hit.Value) != 64 || &hit.Value[0] != &buffer[:1][0] {
			t.Fatal("not found, or outside the buffer")
		}
	}), 1.0)
	require.Equal(t, 1, idle(t, c))

	require.NoError(t, c.Update("look around", func(tx *bolt.Tx) error {
		require.Zero(t, tx.DB().Stats().OpenTxN)
		_, ok, err := c.Lookup(key(7), buffer)
		require.NoError(t, err)
		require.True(t, ok)
		require.Zero(t, tx.DB().Stats().OpenTxN, "it would not see the change")
		return nil
	}))
	_, ok, err := c.Lookup(key(5000), buffer)
	require.NoError(t, err)
	require.False(t, ok)
	remember(t, c, 2, 5000, 1)
	_, ok, err = c.Lookup(key(5000), buffer)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, c.Close(), "although one is kept")
}

// Many lookups run while the file changes.
func TestLookupsDuringChanges(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1), id(2), id(3)}))
	remember(t, c, 1, 0, 500)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 3000 {
				_, ok, err := c.Lookup(key((i*7+w)%500), nil)
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
		_, ok, err := c.Lookup(key(i), nil)
		require.NoError(t, err)
		require.True(t, ok, i)
	}
	require.LessOrEqual(t, idle(t, c), 4)
}
