package scan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlabsFit(t *testing.T) {
	p := &slabs{}
	for n := range 2000 {
		s := p.of(n)
		require.Empty(t, s.entries)
		require.GreaterOrEqual(t, cap(s.entries), n)
		require.Less(t, cap(s.entries), max(2*n, 1<<smallestSlab+1), "memory that is not needed")
		for range n {
			s.entries = append(s.entries, Entry{Name: "x", FS: 1})
		}
		s.recycle()
	}
}

// What was given back is taken again, by directories of about the size.
func TestRecycledEntriesTakeNoMemory(t *testing.T) {
	p := &slabs{}
	p.of(100).recycle()
	require.Less(t, testing.AllocsPerRun(1000, func() {
		d := &Directory{}
		d.slab = p.of(100)
		d.Entries = append(d.slab.entries, Entry{Name: "x"})
		d.Recycle()
		require.Nil(t, d.Entries)
		d.Recycle() // of nothing does nothing
	}), 4.0) // of the test itself; a slab now and then, when the garbage collector has emptied the pools
}
