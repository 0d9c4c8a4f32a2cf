package crew

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stage is a crew that takes a second for each piece of work.
type stage struct {
	Crew
	work    chan int
	group   sync.WaitGroup
	mu      sync.Mutex
	present int
}

func newStage() *stage {
	s := &stage{work: make(chan int)}
	s.Start = func() {
		s.change(1)
		s.group.Go(func() {
			defer s.change(-1)
			_ = Take(s.work, &s.Crew, func(int) error {
				time.Sleep(time.Second)
				return nil
			})
		})
	}
	return s
}

func (s *stage) change(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present += by
}

func (s *stage) feed(t *testing.T, n int) time.Duration {
	begin := time.Now()
	for i := range n {
		require.NoError(t, Hand(t.Context(), s.work, i))
	}
	return time.Since(begin)
}

func TestCrewGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.Begin(1)
		require.Equal(t, 9*time.Second, s.feed(t, 10))
		s.Set(4)
		s.feed(t, 4)
		synctest.Wait()
		require.Equal(t, 4, s.present)
		require.Less(t, s.feed(t, 40), 12*time.Second)
		s.Set(2)
		s.feed(t, 4)
		synctest.Wait()
		require.Equal(t, 2, s.present)
		s.Set(0)
		s.feed(t, 4)
		synctest.Wait()
		require.Equal(t, 1, s.present, "somebody has to stay")
		s.Seal()
		s.Set(8)
		synctest.Wait()
		require.Equal(t, 1, s.present, "too late")
		close(s.work)
		s.group.Wait()
		require.Zero(t, s.present)
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.Begin(2)
		time.Sleep(5 * time.Second)
		require.Equal(t, 10*time.Second, s.Idle.Time())
		s.feed(t, 1)
		time.Sleep(5 * time.Second)
		require.Equal(t, 19*time.Second, s.Idle.Time())
		close(s.work)
		s.group.Wait()
	})
}

func TestTakeEndsAtTheFirstError(t *testing.T) {
	var c Crew
	c.Start = func() {}
	c.Begin(1)
	work := make(chan int, 3)
	work <- 1
	work <- 2
	broken := errors.New("broken")
	require.ErrorIs(t, Take(work, &c, func(int) error { return broken }), broken)
	require.Len(t, work, 1)
}
