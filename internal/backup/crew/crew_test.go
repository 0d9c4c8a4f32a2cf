package crew

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCrewGrowsWhenWorkWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		work := make(chan int)
		var started []time.Duration
		begin := time.Now()
		c := &Crew{Threshold: 20 * time.Second}
		c.Start = func() { started = append(started, time.Since(begin)) }
		c.Begin(1, 3)
		done := make(chan error)
		go func() { done <- Hand(ctx, work, 1, c) }()
		time.Sleep(100 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 20 * time.Second, 40 * time.Second}, started, "one per threshold, up to the bound")
		require.Equal(t, 1, <-work)
		require.NoError(t, <-done)

		go func() { done <- Hand(ctx, work, 2, c) }()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestCrewStaysSmallWhileWorkFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := make(chan int)
		n := 0
		c := &Crew{Threshold: time.Second, Start: func() { n++ }}
		c.Begin(1, 8)
		go func() {
			for range work {
				time.Sleep(900 * time.Millisecond)
			}
		}()
		for i := range 10 {
			require.NoError(t, Hand(context.Background(), work, i, c))
		}
		close(work)
		time.Sleep(time.Second)
		require.Equal(t, 1, n)
	})
}
