package read

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSemaphore(t *testing.T) {
	const most, workers = 10, 8
	s := NewSemaphore(most)
	var held atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range 2000 {
				mine := 0
				for range 4 {
					if s.TryAcquire() {
						mine++
						if n := held.Add(1); n > most {
							t.Errorf("%d of %d are held", n, most)
						}
					}
				}
				held.Add(int64(-mine))
				s.Release(mine)
			}
		})
	}
	group.Wait()
	for range most {
		require.True(t, s.TryAcquire())
	}
	require.False(t, s.TryAcquire())
}
