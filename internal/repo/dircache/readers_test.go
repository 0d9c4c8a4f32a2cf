package dircache

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// A lookup allocates nothing, and sees each change.
func TestLookupsAllocateNothing(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1), id(2)}))
	remember(t, c, 1, 0, 3000)
	buffer := make([]byte, 0, 64)
	// None, but one under the race detector, for which less is inlined.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		hit, ok, err := c.Lookup(key(7), buffer)
		if err != nil || !ok || len(hit.Value) != 64 || &hit.Value[0] != &buffer[:1][0] {
			t.Fatal("not found, or outside the buffer")
		}
	}), 1.0)

	_, ok, err := c.Lookup(key(5000), buffer)
	require.NoError(t, err)
	require.False(t, ok)
	remember(t, c, 2, 5000, 1)
	_, ok, err = c.Lookup(key(5000), buffer)
	require.NoError(t, err)
	require.True(t, ok)
}

// Many lookups run while layers are made and merged.
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
}
