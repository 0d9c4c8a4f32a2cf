package todo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/todo"
)

var errFull = errors.New("the disk is full")

func TestLastInFirstOut(t *testing.T) {
	s := todo.New[string]()
	s.Push("b", "a")
	var got []string
	require.NoError(t, s.Each(t.Context(), func(item string) error {
		if got = append(got, item); item == "a" {
			s.Push("a2", "a1")
			s.Push()
		}
		return nil
	}))
	require.Equal(t, []string{"a", "a1", "a2", "b"}, got)
}

// TestAllIsDoneOnce follows a tree of numbers with several goroutines: n has the children 2n and 2n+1.
func TestAllIsDoneOnce(t *testing.T) {
	const all = 1 << 12
	s := todo.New[int]()
	s.Push(1)
	var mu sync.Mutex
	got := make(map[int]int)
	g, ctx := errgroup.WithContext(t.Context())
	for range 8 {
		g.Go(func() error {
			return s.Each(ctx, func(n int) error {
				mu.Lock()
				got[n]++
				mu.Unlock()
				if 2*n < all {
					s.Push(2*n, 2*n+1)
				}
				return nil
			})
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, got, all-1)
	for n, times := range got {
		require.Equal(t, 1, times, n)
	}
}

// TestWaitsForWhatMayCome has one at work while others have nothing to do: they wait for what it brings.
func TestWaitsForWhatMayCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := todo.New[int]()
		s.Push(1)
		bring, begun := make(chan struct{}), make(chan struct{})
		var g errgroup.Group
		g.Go(func() error {
			return s.Each(t.Context(), func(n int) error {
				if n == 1 {
					close(begun)
					<-bring
					s.Push(2)
					<-bring // so that only the other can do it
				}
				return nil
			})
		})
		<-begun
		did := make(chan int, 2)
		g.Go(func() error {
			return s.Each(t.Context(), func(n int) error { did <- n; return nil })
		})
		synctest.Wait()
		require.Empty(t, did)
		bring <- struct{}{}
		require.Equal(t, 2, <-did)
		close(bring)
		require.NoError(t, g.Wait())
	})
}

func TestErrorEnds(t *testing.T) {
	s := todo.New[int]()
	s.Push(1, 2, 3)
	var got []int
	require.ErrorIs(t, s.Each(t.Context(), func(n int) error {
		if got = append(got, n); n == 2 {
			return errFull
		}
		return nil
	}), errFull)
	require.Equal(t, []int{3, 2}, got)
}

// TestCancelWakes cancels while one works and another waits for what it may bring: the one that waits ends at once.
func TestCancelWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := todo.New[int]()
		s.Push(1)
		hold, begun := make(chan struct{}), make(chan struct{})
		worker := make(chan error, 1)
		go func() {
			worker <- s.Each(t.Context(), func(int) error {
				close(begun)
				<-hold
				return nil
			})
		}()
		<-begun
		ctx, cancel := context.WithCancelCause(t.Context())
		waiter := make(chan error, 1)
		go func() { waiter <- s.Each(ctx, func(int) error { return nil }) }()
		synctest.Wait()
		require.Empty(t, waiter)
		cancel(errFull)
		require.ErrorIs(t, <-waiter, errFull)
		close(hold)
		require.NoError(t, <-worker)
	})
}
