package control

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestATermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term Term
		require.Nil(t, term.Until())
		require.False(t, term.Expired())
		ended, asked := make(chan time.Time, 1), 0
		start := time.Now()
		var mu sync.Mutex // of the job
		mu.Lock()
		term.Change(iopolicy.Throttle, 30*time.Minute, func() {
			mu.Lock()
			defer mu.Unlock()
			if asked++; term.Expired() {
				ended <- time.Now()
			}
		})
		require.True(t, term.Runs())
		require.Equal(t, start.Add(30*time.Minute).Round(0), *term.Until())
		mu.Unlock()
		require.Equal(t, 30*time.Minute, (<-ended).Sub(start))
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, iopolicy.Throttle, term.Lasting())
		require.Nil(t, term.Until())
		require.Equal(t, 30, asked, "the clock is read each minute")
		require.False(t, term.Expired(), "it ends once")
	})
}

func TestATermIsReplacedAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term Term
		var mu sync.Mutex // of the job
		over := 0
		expired := func() {
			mu.Lock()
			defer mu.Unlock()
			if term.Expired() {
				over++
			}
		}
		change := func(held iopolicy.Policy, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			term.Change(held, d, expired)
		}
		check := func(ends int, lasting iopolicy.Policy, runs bool, why ...any) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, ends, over, why...)
			require.Equal(t, lasting, term.Lasting(), why...)
			require.Equal(t, runs, term.Runs(), why...)
		}
		change(iopolicy.Throttle, time.Hour)
		time.Sleep(10 * time.Minute)
		change(iopolicy.Important, 2*time.Hour)
		check(0, iopolicy.Throttle, true, "what held before both returns")
		time.Sleep(119 * time.Minute)
		check(0, iopolicy.Throttle, true, "the end of the first term is none")
		time.Sleep(2 * time.Minute)
		check(1, iopolicy.Throttle, false)

		change(iopolicy.Utility, time.Minute)
		mu.Lock()
		term.Follow(iopolicy.Standard)
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		check(2, iopolicy.Standard, false, "what auto chose meanwhile")

		change(iopolicy.Utility, time.Hour)
		change(iopolicy.Important, 0)
		check(2, iopolicy.Utility, false, "a change without a time ends it")
		change(iopolicy.Utility, time.Hour)
		mu.Lock()
		term.End()
		mu.Unlock()
		time.Sleep(3 * time.Hour)
		check(2, iopolicy.Utility, false)
	})
}

// The timers of a machine that slept are late: the term is over when the wall clock says so.
func TestATermEndsByTheWallClock(t *testing.T) {
	var term Term
	term.Change(iopolicy.Throttle, time.Hour, func() {})
	term.until = term.until.Add(-2 * time.Hour)
	require.True(t, term.Expired())
	require.False(t, term.Runs())
}

func TestAPolicyIsSetForATime(t *testing.T) {
	dir := place(t)
	until := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	j := &job{client: iopolicy.Utility, status: Status{PolicyUntil: &until}}
	begin(t, dir, j, usualLimits())
	r := only(t, dir)
	c, err := r.SetPolicy(t.Context(), iopolicy.Important, 90*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 90*time.Minute, j.term)
	require.Equal(t, [2]string{"utility", "important"}, [2]string{c.Was, c.Policy})
	require.Equal(t, until, *c.Until)
	c, err = r.ReturnPolicy(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]string{"important", "throttle"}, [2]string{c.Was, c.Policy})

	_, err = r.SetPolicy(t.Context(), iopolicy.Important, LongestTerm)
	require.NoError(t, err)
	_, err = r.SetPolicy(t.Context(), iopolicy.Important, LongestTerm+time.Second)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "31536001 seconds are more than a year")
	require.Len(t, j.changes, 3)
}
