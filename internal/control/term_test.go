package control

import (
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
		term.Change(iopolicy.Throttle, 30*time.Minute, func() {
			if asked++; term.Expired() {
				ended <- time.Now()
			}
		})
		require.True(t, term.Runs())
		require.Equal(t, start.Add(30*time.Minute).Round(0), *term.Until())
		require.Equal(t, 30*time.Minute, (<-ended).Sub(start))
		require.Equal(t, iopolicy.Throttle, term.Lasting())
		require.Nil(t, term.Until())
		require.Equal(t, 30, asked, "the clock is read each minute")
		require.False(t, term.Expired(), "it ends once")
	})
}

func TestATermIsReplacedAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var term Term
		over := 0
		expired := func() {
			if term.Expired() {
				over++
			}
		}
		term.Change(iopolicy.Throttle, time.Hour, expired)
		time.Sleep(10 * time.Minute)
		term.Change(iopolicy.Important, 2*time.Hour, expired)
		require.Equal(t, iopolicy.Throttle, term.Lasting(), "the first one")
		time.Sleep(119 * time.Minute)
		synctest.Wait()
		require.Zero(t, over, "the end of the first term is none")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, over)

		term.Change(iopolicy.Utility, time.Minute, expired)
		term.Follow(iopolicy.Standard)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, over)
		require.Equal(t, iopolicy.Standard, term.Lasting(), "what auto chose meanwhile")

		term.Change(iopolicy.Utility, time.Hour, expired)
		term.Change(iopolicy.Important, 0, expired)
		require.False(t, term.Runs(), "a change without a time ends it")
		term.Change(iopolicy.Utility, time.Hour, expired)
		term.End()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Equal(t, 2, over)
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
