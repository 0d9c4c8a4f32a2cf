package control

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestAPolicyReturnsToWhatHeldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob(iopolicy.Throttle)
		j.notes = []string{"nice stays 10"}
		check := func(want iopolicy.Policy, forATime bool) {
			t.Helper()
			synctest.Wait()
			s := j.Status()
			require.Equal(t, want.String(), s.Policy)
			require.Equal(t, want, j.Policy())
			require.Equal(t, forATime, !s.PolicyUntil.IsZero())
			j.mu.Lock()
			defer j.mu.Unlock()
			require.Equal(t, want, j.changes[len(j.changes)-1], "the means follow")
		}
		set := func(p iopolicy.Policy, d time.Duration) {
			t.Helper()
			was := j.Policy()
			c, err := j.SetPolicy(p, d)
			require.NoError(t, err)
			require.Equal(t, [2]string{was.String(), p.String()}, [2]string{c.Was, c.Policy})
			require.Equal(t, d > 0, !c.Until.IsZero())
		}
		prefer := func(p iopolicy.Policy) {
			t.Helper()
			notes, err := j.Prefer(p)
			require.NoError(t, err)
			require.Equal(t, j.notes, notes)
		}
		start := time.Now()
		set(iopolicy.Important, 30*time.Minute)
		check(iopolicy.Important, true)
		require.Equal(t, start.Add(30*time.Minute).Round(0), j.Status().PolicyUntil)
		time.Sleep(30*time.Minute - time.Second)
		check(iopolicy.Important, true)
		time.Sleep(2 * time.Second)
		check(iopolicy.Throttle, false)
		require.Equal(t, "the policy is throttle again, it was important for a time", <-j.reported)
		require.Equal(t, "nice stays 10", <-j.reported)

		// A second time replaces the first, and the policy of before both returns.
		set(iopolicy.Important, time.Hour)
		time.Sleep(30 * time.Minute)
		set(iopolicy.Standard, time.Hour)
		time.Sleep(45 * time.Minute)
		check(iopolicy.Standard, true)
		time.Sleep(16 * time.Minute)
		check(iopolicy.Throttle, false)

		// What the job chooses meanwhile waits for the end.
		set(iopolicy.Important, time.Hour)
		prefer(iopolicy.Utility)
		check(iopolicy.Important, true)
		time.Sleep(61 * time.Minute)
		check(iopolicy.Utility, false)
		prefer(iopolicy.Throttle)
		check(iopolicy.Throttle, false)

		// A change without a time ends it, and the job chooses no other one from then on.
		set(iopolicy.Important, time.Hour)
		set(iopolicy.Standard, 0)
		check(iopolicy.Standard, false)
		time.Sleep(2 * time.Hour)
		check(iopolicy.Standard, false)
		prefer(iopolicy.Throttle)
		check(iopolicy.Standard, false)

		// The end of the job ends it, too.
		set(iopolicy.Important, time.Hour)
		j.Finish(iopolicy.Utility, func() { _, _ = j.apply(iopolicy.Utility) })
		check(iopolicy.Utility, false)
		set(iopolicy.Important, time.Hour)
		j.End()
		time.Sleep(2 * time.Hour)
		check(iopolicy.Important, false)

		// At once, on request.
		set(iopolicy.Utility, 0)
		set(iopolicy.Important, time.Hour)
		c, err := j.ReturnPolicy()
		require.NoError(t, err)
		require.Equal(t, [2]string{"important", "utility"}, [2]string{c.Was, c.Policy})
		check(iopolicy.Utility, false)
		c, err = j.ReturnPolicy()
		require.NoError(t, err)
		require.Equal(t, [2]string{"utility", "utility"}, [2]string{c.Was, c.Policy})
		require.Equal(t, []string{}, c.Notes)
		check(iopolicy.Utility, false)
	})
}

// After an error the old policy holds, and the term runs on.
func TestAPolicyThatCannotBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob(iopolicy.Throttle)
		_, err := j.SetPolicy(iopolicy.Important, time.Hour)
		require.NoError(t, err)
		j.stubborn = errors.New("it belongs to another user")
		_, err = j.SetPolicy(iopolicy.Utility, 0)
		require.ErrorIs(t, err, j.stubborn)
		_, err = j.ReturnPolicy()
		require.ErrorIs(t, err, j.stubborn)
		_, err = j.Prefer(iopolicy.Standard)
		require.ErrorIs(t, err, j.stubborn)
		require.Equal(t, iopolicy.Important, j.Policy())
		require.NotZero(t, j.Status().PolicyUntil)
		time.Sleep(61 * time.Minute)
		require.Equal(t, "the policy is still important: it belongs to another user", <-j.reported)
		require.Zero(t, j.Status().PolicyUntil)
	})
}

func TestASilentJobReportsOnlyWhatWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []string
		var fails error
		j := NewJob(iopolicy.Throttle, Means{Show: func() event.Job { return event.Job{} }, Silent: true,
			Apply: func(iopolicy.Policy) ([]string, error) { return []string{"nice stays 10"}, fails },
			Note:  func(text string) { notes = append(notes, text) }})
		for _, failing := range []error{nil, errors.New("no")} {
			_, err := j.SetPolicy(iopolicy.Important, time.Second)
			require.NoError(t, err)
			j.mu.Lock()
			fails = failing
			j.mu.Unlock()
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		require.Equal(t, []string{"nice stays 10", "nice stays 10", "the policy is still important: no"}, notes)
	})
}

// The timers of a machine that slept are late: the term is over when the wall clock says so.
func TestATermEndsByTheWallClock(t *testing.T) {
	j := newJob(iopolicy.Throttle)
	_, err := j.SetPolicy(iopolicy.Important, time.Hour)
	require.NoError(t, err)
	require.Empty(t, j.expire())
	j.until = j.until.Add(-2 * time.Hour)
	require.Len(t, j.expire(), 1)
	require.Equal(t, iopolicy.Throttle, j.Policy())
	require.Empty(t, j.expire(), "it ends once")
}

// A machine that slept is noticed within a minute, not when its timer would have fired.
func TestTheClockIsReadEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob(iopolicy.Throttle)
		_, err := j.SetPolicy(iopolicy.Important, time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute + time.Second)
		j.Job.mu.Lock()
		j.until = j.until.Add(-59 * time.Minute) // the wall clock is ahead
		j.Job.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, iopolicy.Throttle, j.Policy())
	})
}

func TestAPolicyIsSetForATime(t *testing.T) {
	dir := place(t)
	j := newJob(iopolicy.Utility)
	begin(t, dir, j, usualLimits())
	r := only(t, dir)
	start := time.Now().Round(0)
	c, err := r.SetPolicy(t.Context(), iopolicy.Important, 90*time.Minute)
	require.NoError(t, err)
	require.Equal(t, [2]string{"utility", "important"}, [2]string{c.Was, c.Policy})
	require.WithinRange(t, c.Until, start.Add(90*time.Minute), time.Now().Add(90*time.Minute))
	c, err = r.ReturnPolicy(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]string{"important", "utility"}, [2]string{c.Was, c.Policy})
	require.Zero(t, c.Until)

	_, err = r.SetPolicy(t.Context(), iopolicy.Important, LongestTerm)
	require.NoError(t, err)
	_, err = r.SetPolicy(t.Context(), iopolicy.Important, LongestTerm+time.Second)
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "31536001 seconds are more than a year")
	require.Len(t, j.changes, 3)
}

func TestImpactIsChangedWhileAJobRuns(t *testing.T) {
	dir := place(t)
	j := newJob(iopolicy.Throttle)
	part := 0.05
	j.means.Impact = func(to float64) { part = to }
	defer begin(t, dir, j, usualLimits())()
	r := only(t, dir)
	c, err := r.SetMaxImpact(t.Context(), 20)
	require.NoError(t, err)
	require.InDelta(t, 0.2, part, 1e-9)
	require.Equal(t, [2]string{"throttle", "throttle"}, [2]string{c.Was, c.Policy})
	require.Equal(t, []string{"Others may lose 20 % of their speed."}, c.Notes)
	_, err = r.SetMaxImpact(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, part)
	_, err = r.SetMaxImpact(t.Context(), 101)
	require.ErrorContains(t, err, "refused")
	require.Zero(t, part)
}

func TestImpactOfAProgramWithoutGatesIsRefused(t *testing.T) {
	dir := place(t)
	defer begin(t, dir, newJob(iopolicy.Important), usualLimits())()
	_, err := only(t, dir).SetMaxImpact(t.Context(), 20)
	require.ErrorContains(t, err, "refused")
}

func TestCommandsAreShownWithoutSecrets(t *testing.T) {
	require.Equal(t, []string{"tidemark", "backup", "--password-command", "***", "--smb-password-command=***",
		"-passwordcommand=***", "--password-file", "/f", "--repo", "smb://***@nas/x", "--",
		"mysqldump", "--password=***", "--all"},
		shownCommand([]string{"tidemark", "backup", "--password-command", "echo S3", "--smb-password-command=echo S3",
			"-passwordcommand=echo S3", "--password-file", "/f", "--repo", "smb://me:S3@nas/x", "--", "mysqldump",
			"--password=S3", "--all"}))
}
