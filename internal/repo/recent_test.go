package repo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func newFrames() *Recent[byte, []byte] {
	return NewRecent[byte](100, func(raw []byte) int { return len(raw) })
}

func TestRecentForgetsTheOldest(t *testing.T) {
	c := newFrames()
	loads := 0
	get := func(n byte, size int) {
		t.Helper()
		raw, err := c.Get(t.Context(), n, func() ([]byte, error) {
			loads++
			return make([]byte, size), nil
		})
		require.NoError(t, err)
		require.Len(t, raw, size)
		require.LessOrEqual(t, c.size, 100)
	}
	get(1, 40)
	get(2, 40)
	get(1, 40) // now 2 is the oldest
	get(3, 40)
	require.Equal(t, 3, loads)
	get(1, 40)
	require.Equal(t, 3, loads)
	get(2, 40)
	require.Equal(t, 4, loads)
	get(4, 101) // larger than the cache: given, not kept
	require.Equal(t, 80, c.size)
	get(1, 40)
	require.Equal(t, 5, loads, "2 had pushed out 3, and then 1 was the oldest but one")
}

func TestRecentLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFrames()
		release := make(chan struct{})
		loads := 0
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				raw, err := c.Get(t.Context(), 1, func() ([]byte, error) {
					loads++ // by one goroutine only, or the race detector would complain
					<-release
					return []byte("raw"), nil
				})
				if err != nil || string(raw) != "raw" {
					t.Errorf("got %q, %v", raw, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		require.Equal(t, 1, loads)
	})
}

// One caller being cancelled is no failure for the others; an error is, and it is not remembered.
func TestRecentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFrames()
		ctx, cancel := context.WithCancel(t.Context())
		var first, second error
		var raw []byte
		go func() {
			_, first = c.Get(ctx, 1, func() ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}()
		synctest.Wait()
		go func() {
			raw, second = c.Get(t.Context(), 1, func() ([]byte, error) { return []byte("raw"), nil })
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, first, context.Canceled)
		require.NoError(t, second)
		require.Equal(t, "raw", string(raw))

		broken := errors.New("broken")
		_, err := c.Get(t.Context(), 2, func() ([]byte, error) { return nil, broken })
		require.ErrorIs(t, err, broken)
		raw, err = c.Get(t.Context(), 2, func() ([]byte, error) { return []byte("again"), nil })
		require.NoError(t, err)
		require.Equal(t, "again", string(raw))
		require.Len(t, c.values, 2, "none is being loaded")
	})
}

func TestRunLength(t *testing.T) {
	for name, c := range map[string]struct {
		spans []Span
		want  int
	}{
		"one":          {[]Span{{48, 100}}, 1},
		"neighbours":   {[]Span{{48, 100}, {148, 100}, {248, 100}}, 3},
		"small gap":    {[]Span{{0, 100}, {maxGap, 100}}, 2},
		"large gap":    {[]Span{{0, 100}, {maxGap + 101, 100}}, 1},
		"long run":     {[]Span{{0, maxRun / 2}, {maxRun / 2, maxRun / 2}, {maxRun, 1}}, 2},
		"long frame":   {[]Span{{0, maxRun * 2}, {maxRun * 2, 1}}, 1},
		"overlap":      {[]Span{{0, 100}, {50, 100}}, 1},
		"end of range": {[]Span{{1<<32 - 100, 50}, {1<<32 - 50, 49}}, 2},
	} {
		require.Equal(t, c.want, runLength(c.spans), name)
	}
}
