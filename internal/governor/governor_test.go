package governor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// governed returns a governor whose gates are those of one folder. It never changes the CPU priority: only Use and the
// first gate outside of a brief part do.
func governed(p iopolicy.Policy, folder string) (*governor.Governor, *[]string) {
	var notes []string
	return governor.New(governor.Config{Policy: p, Note: func(text string) { notes = append(notes, text) },
		Open: func(client *iopolicy.Client) *throttle.Manager {
			return throttle.Open(throttle.Config{Client: client, Medium: device.SSD}, folder)
		}}), &notes
}

func TestTheIOFollowsTheJobButInItsParts(t *testing.T) {
	g, _ := governed(iopolicy.Utility, "")
	require.Equal(t, iopolicy.Utility, g.IOPolicy())
	set := func(p iopolicy.Policy, d time.Duration) {
		_, err := g.Job.SetPolicy(p, d)
		require.NoError(t, err)
	}
	set(iopolicy.Standard, 0)
	require.Equal(t, iopolicy.Standard, g.IOPolicy())
	g.Brief(true)
	require.Equal(t, iopolicy.Passive, g.IOPolicy(), "a person waits")
	set(iopolicy.Throttle, 0)
	require.Equal(t, iopolicy.Passive, g.IOPolicy())
	require.Equal(t, iopolicy.Throttle, g.Job.Policy(), "that of the job is another one")
	g.Brief(false)
	require.Equal(t, iopolicy.Throttle, g.IOPolicy())

	set(iopolicy.Important, time.Hour)
	g.Brief(true)
	g.Yield()
	require.Equal(t, iopolicy.Throttle, g.IOPolicy(), "no person waits for the rest")
	s := g.Job.Status()
	require.Equal(t, "throttle", s.Policy)
	require.Zero(t, s.PolicyUntil, "the term is over")
}

func TestGatesAreMadeOnceAndFollow(t *testing.T) {
	g, notes := governed(iopolicy.Utility, t.TempDir())
	started := false
	require.NoError(t, g.Start(func() error { started = true; return nil }), "without gates")
	require.True(t, started)
	require.NoError(t, g.Close())
	g.Brief(true)
	manager := g.Gates()
	require.NotNil(t, manager)
	require.Same(t, manager, g.Gates())
	require.Equal(t, iopolicy.Passive, g.IOPolicy())
	g.Brief(false)
	_, err := g.Job.SetPolicy(iopolicy.Throttle, 0)
	require.NoError(t, err)
	require.Equal(t, iopolicy.Throttle, g.IOPolicy())
	pass := g.Gate(nil, t.TempDir())
	require.False(t, g.Rotational(pass))
	wrote := false
	failed := errors.New("disk full")
	require.ErrorIs(t, g.Flush(t.TempDir(), func() error { wrote = true; return failed }), failed)
	require.True(t, wrote)
	require.NotNil(t, g.Remote("nas"))
	require.NoError(t, g.Close())
	require.Empty(t, *notes)
}

// The report of a job has the policies that it held since it is shown.
func TestAJobIsShownWithItsPolicies(t *testing.T) {
	g, _ := governed(iopolicy.Utility, t.TempDir())
	g.Brief(true)
	require.Equal(t, event.Job{Policy: "utility"}, g.Job.Status(), "before it is shown")
	l := report.New(time.Now)
	g.Show(event.Job{Job: "backup", Sources: []string{"/src"}, Repository: "/repo"}, l)
	_, err := g.Job.SetPolicy(iopolicy.Important, 0)
	require.NoError(t, err)
	s := g.Job.Status()
	require.Equal(t, "backup", s.Job)
	require.Equal(t, []string{"/src"}, s.Sources)
	require.Equal(t, "/repo", s.Repository)
	totals := l.Snapshot()
	require.Equal(t, totals.Start, s.Start)
	require.Equal(t, "important", totals.Policies[len(totals.Policies)-1].Policy)
	require.NoError(t, g.Close())
}

// A person who watches a job sees the speed of the last seconds, and one who asks once in a while that since the start.
func TestSpeedsOfAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := governed(iopolicy.Utility, "")
		g.Brief(true)
		l := report.New(time.Now)
		g.Show(event.Job{Job: "backup"}, l)
		read := func(n uint64) { l.Bytes.Read.Add(n); l.Bytes.Inspected.Add(n) }
		time.Sleep(100 * time.Second)
		read(1000)
		require.InDelta(t, 10, g.Job.Status().Status.BytesPerSecond, 0.01)
		for range 10 {
			time.Sleep(time.Second)
			read(50)
			g.Job.Status()
		}
		require.InDelta(t, 50, g.Job.Status().Status.BytesPerSecond, 0.01)
		time.Sleep(390 * time.Second)
		require.InDelta(t, 3, g.Job.Status().Status.BytesPerSecond, 0.01)
	})
}
