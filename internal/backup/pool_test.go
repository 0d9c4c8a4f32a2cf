package backup

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stage is a pool. Its workers need a second for each item.
type stage struct {
	pool
	work    chan int
	group   sync.WaitGroup
	mu      sync.Mutex
	present int
	begun   int         // workers, in all
	over    func() bool // see receive; nil: never
}

func newStage() *stage {
	s := &stage{work: make(chan int)}
	s.start = func() {
		s.change(1)
		over := s.newcomer()
		s.group.Go(func() {
			defer s.change(-1)
			_ = receive(s.work, &s.pool, over, func(int) error {
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

// newcomer counts a worker and returns what it is to ask.
func (s *stage) newcomer() func() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	if s.over == nil {
		return never
	}
	return s.over
}

// counts returns how many workers there are, and how many have begun.
func (s *stage) counts() [2]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]int{s.present, s.begun}
}

func (s *stage) feed(t *testing.T, n int) time.Duration {
	begin := time.Now()
	for i := range n {
		require.NoError(t, send(t.Context(), s.work, i))
	}
	return time.Since(begin)
}

func TestPoolGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.Resize(1)
		require.Equal(t, 9*time.Second, s.feed(t, 10))
		s.Resize(4)
		s.feed(t, 4)
		synctest.Wait()
		require.Equal(t, 4, s.present)
		require.Less(t, s.feed(t, 40), 12*time.Second)
		s.Resize(2)
		s.feed(t, 4)
		synctest.Wait()
		require.Equal(t, 2, s.present)
		s.Resize(0)
		s.feed(t, 4)
		synctest.Wait()
		require.Equal(t, 1, s.present, "one worker stays")
		s.Close()
		s.Resize(8)
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
		s.Resize(2)
		time.Sleep(5 * time.Second)
		require.Equal(t, 10*time.Second, s.idle.Time())
		s.feed(t, 1)
		time.Sleep(5 * time.Second)
		require.Equal(t, 19*time.Second, s.idle.Time())
		close(s.work)
		s.group.Wait()
	})
}

func TestReceiveEndsAtTheFirstError(t *testing.T) {
	var c pool
	c.start = func() {}
	c.Resize(1)
	work := make(chan int, 3)
	work <- 1
	work <- 2
	broken := errors.New("broken")
	require.ErrorIs(t, receive(work, &c, never, func(int) error { return broken }), broken)
	require.Len(t, work, 1)
}

// TestAWorkerIsReplaced: what is over after its present item leaves its place to another one, also while the pool
// shrinks, and no item is lost.
func TestAWorkerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.over = func() bool { return true }
		s.Resize(3)
		s.feed(t, 30)
		synctest.Wait()
		require.Equal(t, [2]int{3, 30}, s.counts(), "3, and one after each item that has ended")
		s.Resize(1)
		s.feed(t, 10)
		synctest.Wait()
		require.Equal(t, 1, s.counts()[0])
		close(s.work)
		s.group.Wait()
		require.Zero(t, s.present)
	})
}
