package reach

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

var errFull = errors.New("the disk is full")

func TestQueueTakesTheNewestFirst(t *testing.T) {
	q := newQueue[string]()
	q.push("b", "a")
	var got []string
	require.NoError(t, q.each(t.Context(), func(item string) error {
		if got = append(got, item); item == "a" {
			q.push("a2", "a1")
			q.push()
		}
		return nil
	}))
	require.Equal(t, []string{"a", "a1", "a2", "b"}, got)
}

// TestQueueWaitsForActiveItems: a goroutine without an item waits, because the active item of another may add more.
func TestQueueWaitsForActiveItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int]()
		q.push(1)
		add, begun := make(chan struct{}), make(chan struct{})
		var g errgroup.Group
		g.Go(func() error {
			return q.each(t.Context(), func(n int) error {
				if n == 1 {
					close(begun)
					<-add
					q.push(2)
					<-add // so that only the other goroutine can take it
				}
				return nil
			})
		})
		<-begun
		did := make(chan int, 2)
		g.Go(func() error {
			return q.each(t.Context(), func(n int) error { did <- n; return nil })
		})
		synctest.Wait()
		require.Empty(t, did)
		add <- struct{}{}
		require.Equal(t, 2, <-did)
		close(add)
		require.NoError(t, g.Wait())
	})
}

// TestQueueEndsWhenCancelled: a goroutine that waits for items returns as soon as its context is cancelled.
func TestQueueEndsWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int]()
		q.push(1)
		hold, begun := make(chan struct{}), make(chan struct{})
		worker := make(chan error, 1)
		go func() {
			worker <- q.each(t.Context(), func(int) error {
				close(begun)
				<-hold
				return nil
			})
		}()
		<-begun
		ctx, cancel := context.WithCancelCause(t.Context())
		waiter := make(chan error, 1)
		go func() { waiter <- q.each(ctx, func(int) error { return nil }) }()
		synctest.Wait()
		require.Empty(t, waiter)
		cancel(errFull)
		require.ErrorIs(t, <-waiter, errFull)
		close(hold)
		require.NoError(t, <-worker)
	})
}

func TestQueueEndsAtAnError(t *testing.T) {
	q := newQueue[int]()
	q.push(1, 2, 3)
	var got []int
	require.ErrorIs(t, q.each(t.Context(), func(n int) error {
		if got = append(got, n); n == 2 {
			return errFull
		}
		return nil
	}), errFull)
	require.Equal(t, []int{3, 2}, got)
}
