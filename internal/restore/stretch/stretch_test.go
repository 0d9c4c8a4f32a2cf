package stretch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is drained of one file goes upwards, no stretch reaches over a gap, and no more wait than may.
func TestDrainIsAscending(t *testing.T) {
	var j Joiner[string]
	require.True(t, j.Add("a", 100, 0, 10))
	require.True(t, j.Add("a", 110, 10, 10), "its neighbour")
	require.True(t, j.Add("a", 130, 20, 10), "a gap in the file")
	require.True(t, j.Add("a", 140, 40, 10), "a gap in the frame")
	require.True(t, j.Add("a", 0, 50, 10))
	require.True(t, j.Add("b", 10, 60, 10), "another file")
	var got []Stretch[string]
	drain := func() {
		got = nil
		j.Drain(func(s *Stretch[string]) { got = append(got, *s) })
	}
	drain()
	require.Equal(t, []Stretch[string]{
		{"a", 0, 50, 60, 1}, {"b", 10, 60, 70, 1}, {"a", 100, 0, 20, 2}, {"a", 130, 20, 30, 1}, {"a", 140, 40, 50, 1},
	}, got)
	drain()
	require.Empty(t, got)
	for i := range uint64(Most) {
		require.True(t, j.Add("a", 100*i, 100*i, 1))
	}
	require.False(t, j.Add("a", 100*Most, 100*Most, 1))
	require.True(t, j.Add("a", 100*(Most-1)+1, 100*(Most-1)+1, Full), "what has a neighbour takes no room")
	drain()
	require.Len(t, got, Most)
	require.True(t, j.Add("a", 0, 0, Full))
	require.True(t, j.Add("a", Full, Full, 1))
	drain()
	require.Len(t, got, 2, "long enough")
}
