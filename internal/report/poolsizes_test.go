package report

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		for i := range mostSizes + 3 {
			l.Resized(PoolSizes{Readers: i})
			time.Sleep(time.Second)
		}
		got := l.Snapshot().PoolSizes
		require.Len(t, got, mostSizes)
		require.Equal(t, PoolSizes{Since: 3, Readers: 3}, got[0], "those before are forgotten")
		require.Equal(t, mostSizes+2, got[mostSizes-1].Readers)
	})
}
