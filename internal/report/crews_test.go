package report

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCrewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		for i := range mostCrews + 3 {
			l.Crewed(Crews{Readers: i})
			time.Sleep(time.Second)
		}
		got := l.Snapshot().Crews
		require.Len(t, got, mostCrews)
		require.Equal(t, Crews{Since: 3 * time.Second, Readers: 3}, got[0], "those before are forgotten")
		require.Equal(t, mostCrews+2, got[mostCrews-1].Readers)
	})
}
