package object

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAhead(t *testing.T) {
	for size, want := range map[int64]int{0: 16, 1 << 10: 16, 2 << 20: 8, 11 << 20: 2, 200 << 20: 2} {
		require.Equal(t, want, ahead(size), size)
	}
}
