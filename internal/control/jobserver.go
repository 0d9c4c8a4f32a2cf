package control

import (
	"os"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// jobServer answers the requests about a job.
type jobServer struct {
	job    Job
	start  time.Time
	change sync.Mutex // one change at a time, so that each reports its own
}

func (s *jobServer) answer(q request) any {
	switch q.Request {
	case askStatus:
		return s.status()
	case setPolicy:
		p, err := iopolicy.ParsePolicy(q.Policy)
		if err != nil {
			return refuse("%v", err)
		}
		if q.ForSeconds > uint64(LongestTerm/time.Second) {
			return refuse("%d seconds are more than a year; set the policy without a time", q.ForSeconds)
		}
		return s.setPolicy(func() ([]string, error) { return s.job.SetPolicy(p, time.Duration(q.ForSeconds)*time.Second) })
	case returnPolicy:
		return s.setPolicy(s.job.ReturnPolicy)
	case setImpact:
		return s.setImpact(q.MaxImpact)
	}
	return refuse("unknown request %q; there are %s, %s, %s and %s", q.Request, askStatus, setPolicy, returnPolicy,
		setImpact)
}

// status completes the status of a job.
func (s *jobServer) status() Status {
	status := s.job.Status()
	status.Type, status.Version, status.PID = "job", protocol, os.Getpid()
	if status.Command == nil {
		status.Command = os.Args
	}
	if status.Start.IsZero() {
		status.Start = s.start
	}
	if status.Sources == nil {
		status.Sources = []string{}
	}
	return status
}

func (s *jobServer) setPolicy(change func() ([]string, error)) any {
	s.change.Lock()
	defer s.change.Unlock()
	was := s.job.Status().Policy
	notes, err := change()
	if err != nil {
		return refuse("%v", err)
	}
	if notes == nil {
		notes = []string{}
	}
	now := s.job.Status()
	return s.changed(was, now.Policy, now.PolicyUntil, notes)
}

// changed returns the answer to a successful request.
func (s *jobServer) changed(was, policy string, until *time.Time, notes []string) Change {
	return Change{Type: "policy_change", Version: protocol, PID: os.Getpid(), Was: was, Policy: policy, Until: until,
		Notes: notes}
}
