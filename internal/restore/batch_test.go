package restore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Windows grow from a small one, so that reading begins at once, and what they hold is forgotten when they are done.
func TestBatchIsReset(t *testing.T) {
	w := &batch{limit: 1000}
	first := w.smalls.add(small{name: "first"})
	for i := range 3 * smallBlock {
		s := w.smalls.add(small{name: fmt.Sprint(i)})
		w.chunks = append(w.chunks, chunk{To: destination{small: s}})
		w.cost++
	}
	require.Equal(t, "first", first.name, "what was added stays where it is")
	require.True(t, w.full())
	w.reset()
	require.False(t, w.full())
	require.Empty(t, w.chunks)
	require.Nil(t, w.chunks[:1][0].To.small)
	require.Empty(t, first.name)
	again := w.smalls.add(small{name: "again"})
	require.Same(t, first, again, "the memory is used again")
}
