package output

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

func TestTheVerdictOfStatus(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	job := func(change func(*event.DaemonJob)) event.DaemonJob {
		j := event.DaemonJob{Name: "home", State: "idle", LastBackup: ago(time.Hour)}
		change(&j)
		return j
	}
	fresh := job(func(*event.DaemonJob) {})
	failed := job(func(j *event.DaemonJob) { j.Failures = 1 })
	incomplete := job(func(j *event.DaemonJob) { j.Incomplete = 1 })
	stale := job(func(j *event.DaemonJob) { j.Stale = true })
	damaged := job(func(j *event.DaemonJob) { j.Damage = "x" })
	invalid := job(func(j *event.DaemonJob) { j.State, j.Problem = "invalid", "x" })
	outdated := job(func(j *event.DaemonJob) { j.Problem = "x" })
	never := job(func(j *event.DaemonJob) { j.LastBackup = time.Time{} })
	grouped := func(j event.DaemonJob) event.DaemonJob { j.Group = "g"; return j }
	runs := func(jobs ...event.DaemonJob) event.Overview {
		return event.Overview{State: event.ServiceRuns, Service: &event.Daemon{Jobs: jobs}}
	}
	without := func(state event.ServiceState, jobs ...event.DaemonJob) event.Overview {
		return event.Overview{State: state, Defined: jobs}
	}
	unreadable := event.Overview{Service: &event.Daemon{Problem: "x", Jobs: []event.DaemonJob{fresh}}}
	stalled := event.Overview{LastBackup: ago(1), Machines: []event.Machine{{Stale: true}}}
	byHand := event.Overview{LastBackup: ago(1)}
	for what, c := range map[string]struct {
		o    event.Overview
		want string
		code int
	}{
		"all is well":                  {runs(fresh, fresh), Fresh, 0},
		"one failed":                   {runs(fresh, failed, incomplete, stale), Failed, 2},
		"one is damaged":               {runs(fresh, failed, damaged), Damaged, 2},
		"one is incomplete":            {runs(fresh, incomplete), Incomplete, 1},
		"one is stale":                 {runs(incomplete, stale), Stale, 1},
		"one is invalid":               {runs(fresh, invalid), Failed, 2},
		"one runs as it was before":    {runs(fresh, outdated), Stale, 1},
		"one has no backup yet":        {runs(fresh, never), Unknown, 3},
		"a fact goes before":           {runs(never, stale), Stale, 1},
		"one of a group is fresh":      {runs(grouped(failed), grouped(never), grouped(fresh)), Fresh, 0},
		"none of a group is fresh":     {runs(grouped(failed), grouped(never)), Failed, 2},
		"one of a group is damaged":    {runs(grouped(damaged), grouped(fresh)), Damaged, 2},
		"there are no jobs":            {runs(), Unknown, 3},
		"no option file":               {unreadable, Failed, 2},
		"not running, fresh":           {without(event.ServiceAbsent, fresh), Fresh, 0},
		"not running, stale":           {without(event.ServiceAbsent, stale), Stale, 1},
		"stopped, fresh":               {without(event.ServiceStopped, fresh), Unknown, 3},
		"stopped, failed":              {without(event.ServiceStopped, failed), Failed, 2},
		"unreachable, fresh":           {without(event.ServiceUnreachable, fresh), Unknown, 3},
		"of another user":              {without(event.ServiceOfOther), Unknown, 3},
		"by hand":                      {event.Overview{LastBackup: ago(time.Hour)}, Fresh, 0},
		"by hand, long ago":            {event.Overview{LastBackup: ago(73 * time.Hour)}, Stale, 1},
		"nothing is known":             {event.Overview{State: event.ServiceAbsent}, Unknown, 3},
		"another machine is stale":     {stalled, Stale, 1},
		"another machine is not":       {event.Overview{LastBackup: ago(1), Machines: []event.Machine{{}}}, Fresh, 0},
		"damaged beside a stopped one": {without(event.ServiceStopped, damaged), Damaged, 2},
	} {
		require.Equal(t, c.want, Verdict(&c.o, &proofs.Summary{}, 72*time.Hour, now), what)
		require.Equal(t, c.code, VerdictCode(c.want), what)
	}
	found := proofs.Summary{Damage: proofs.Damage{Problems: 1}}
	require.Equal(t, Damaged, Verdict(&byHand, &found, 72*time.Hour, now))
	drilled := proofs.Summary{Drill: proofs.Drill{Failed: 1}}
	require.Equal(t, Failed, Verdict(&byHand, &drilled, 72*time.Hour, now))
}
