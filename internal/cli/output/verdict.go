package output

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// The verdicts of status, as in event.Overview.
const (
	Fresh      = "fresh"
	Stale      = "stale"
	Incomplete = "incomplete"
	Failed     = "failed"
	Damaged    = "damaged"
	Unknown    = "unknown"
)

// VerdictCode returns the exit code of a verdict, as plug-ins of monitoring systems have them.
func VerdictCode(verdict string) int {
	switch verdict {
	case Fresh:
		return 0
	case Stale, Incomplete:
		return 1
	case Failed, Damaged:
		return 2
	}
	return 3
}

// Verdict returns the worst of what is known of the jobs and the service. A fact goes before what is unknown. limit is
// the age from which on the backup of a default repository without jobs is stale; 0: none.
func Verdict(o *event.Overview, proven *proofs.Summary, limit time.Duration, now time.Time) string {
	jobs := o.Defined
	if o.Service != nil {
		jobs = o.Service.Jobs
	}
	verdicts := map[string]bool{}
	fresh := map[string]bool{} // groups: one of their repositories is enough
	for i := range jobs {
		if jobs[i].Group != "" && jobVerdict(&jobs[i]) == Fresh {
			fresh[jobs[i].Group] = true
		}
	}
	for i := range jobs {
		if v := jobVerdict(&jobs[i]); v == Damaged || !fresh[jobs[i].Group] {
			verdicts[v] = true
		}
	}
	switch {
	case o.Service != nil && o.Service.Problem != "":
		verdicts[Failed] = true
	case o.State == event.ServiceStopped || o.State == event.ServiceUnreachable || len(jobs) == 0 && o.Service != nil:
		verdicts[Unknown] = true
	case len(jobs) > 0:
	case o.LastBackup == nil:
		verdicts[Unknown] = true
	case limit > 0 && now.Sub(*o.LastBackup) > limit:
		verdicts[Stale] = true
	}
	verdicts[Damaged] = verdicts[Damaged] || proven.Damage.Problems > 0
	verdicts[Failed] = verdicts[Failed] || proven.Drill.Failed > 0
	for i := range o.Machines {
		if o.Machines[i].Stale {
			verdicts[Stale] = true
		}
	}
	for _, one := range []string{Damaged, Failed, Stale, Incomplete, Unknown} {
		if verdicts[one] {
			return one
		}
	}
	return Fresh
}

// jobVerdict returns the verdict on a job of the service.
func jobVerdict(j *event.DaemonJob) string {
	switch {
	case j.Damage != "":
		return Damaged
	case j.Failures > 0 || j.State == "invalid":
		return Failed
	case j.Stale:
		return Stale
	case j.Incomplete > 0:
		return Incomplete
	case j.LastBackup == nil:
		return Unknown
	case j.Problem != "":
		return Stale // a later version of it does not run
	}
	return Fresh
}
