package tune

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s WaitTime
		require.Zero(t, s.Time())
		after := func(d time.Duration, do func()) { time.AfterFunc(d, do) }
		after(1*time.Second, s.Begin)
		after(3*time.Second, s.Begin)
		after(4*time.Second, s.End)
		after(10*time.Second, s.End)
		at := func(d time.Duration, want time.Duration) {
			after(d, func() { require.Equal(t, want, s.Time(), "after %v", d) })
		}
		at(500*time.Millisecond, 0)
		at(2500*time.Millisecond, 1500*time.Millisecond)
		at(3500*time.Millisecond, 3*time.Second)
		at(11*time.Second, 10*time.Second)
		at(100*time.Second, 10*time.Second)
		time.Sleep(101 * time.Second)
		synctest.Wait()
	})
}

func TestWaitTimeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s WaitTime
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				s.Begin()
				time.Sleep(time.Duration(i) * time.Second)
				s.End()
			})
		}
		group.Wait()
		require.Equal(t, time.Duration(49*50/2)*time.Second, s.Time())
	})
}
