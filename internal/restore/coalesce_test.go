package restore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Writes of one file are ascending, no write spans a gap, and the number of waiting writes is bounded.
func TestCoalescedWritesAreAscending(t *testing.T) {
	var c writeCoalescer
	a, b := &file{}, &file{}
	require.True(t, c.add(a, 100, 0, 10))
	require.True(t, c.add(a, 110, 10, 10), "its neighbour")
	require.True(t, c.add(a, 130, 20, 10), "a gap in the file")
	require.True(t, c.add(a, 140, 40, 10), "a gap in the frame")
	require.True(t, c.add(a, 0, 50, 10))
	require.True(t, c.add(b, 10, 60, 10), "another file")
	var got []coalescedWrite
	drain := func() {
		got = nil
		c.drain(func(w *coalescedWrite) { got = append(got, *w) })
	}
	drain()
	require.Len(t, got, 5)
	for i, want := range []coalescedWrite{{a, 0, 50, 60, 1}, {b, 10, 60, 70, 1}, {a, 100, 0, 20, 2}, {a, 130, 20, 30, 1},
		{a, 140, 40, 50, 1}} {
		require.Same(t, want.file, got[i].file)
		require.Equal(t, want, got[i])
	}
	drain()
	require.Empty(t, got)
	for i := range uint64(maxWaitingWrites) {
		require.True(t, c.add(a, 100*i, 100*i, 1))
	}
	require.False(t, c.add(a, 100*maxWaitingWrites, 100*maxWaitingWrites, 1))
	require.True(t, c.add(a, 100*(maxWaitingWrites-1)+1, 100*(maxWaitingWrites-1)+1, maxCoalesced),
		"a neighbour always fits")
	drain()
	require.Len(t, got, maxWaitingWrites)
	require.True(t, c.add(a, 0, 0, maxCoalesced))
	require.True(t, c.add(a, maxCoalesced, maxCoalesced, 1))
	drain()
	require.Len(t, got, 2, "long enough")
}
