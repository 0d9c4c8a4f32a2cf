package control

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// answer answers a request about a job whose socket exists since start.
func (j *Job) answer(q request, start time.Time) any {
	var c event.PolicyChange
	var err error
	switch q.Request {
	case askStatus:
		return j.shown(start)
	case setPolicy:
		p, wrong := iopolicy.ParsePolicy(q.Policy)
		if wrong != nil {
			return refuse("%v", wrong)
		}
		if q.ForSeconds > uint64(LongestTerm/time.Second) {
			return refuse("%d seconds are more than a year; set the policy without a time", q.ForSeconds)
		}
		c, err = j.SetPolicy(p, time.Duration(q.ForSeconds)*time.Second)
	case returnPolicy:
		c, err = j.ReturnPolicy()
	case setImpact:
		return j.setImpact(q.MaxImpact)
	default:
		return refuse("unknown request %q; there are %s, %s, %s and %s", q.Request, askStatus, setPolicy, returnPolicy,
			setImpact)
	}
	if err != nil {
		return refuse("%v", err)
	}
	return c
}

// shown returns the status of a job with what is known of its process.
func (j *Job) shown(start time.Time) event.Job {
	s := j.Status()
	s.Type, s.Version, s.PID, s.Command = "job", protocol, os.Getpid(), shownCommand(os.Args)
	if s.Start.IsZero() {
		s.Start = start
	}
	if s.Sources == nil {
		s.Sources = []string{}
	}
	return s
}

// changed describes a change from a policy. j.mu is held.
func (j *Job) changed(was iopolicy.Policy, notes []string) event.PolicyChange {
	if notes == nil {
		notes = []string{}
	}
	return event.PolicyChange{Type: "policy_change", Version: protocol, PID: os.Getpid(), Was: was.String(),
		Policy: j.policy.String(), Until: j.end(), Notes: notes}
}

func (j *Job) setImpact(percent float64) any {
	if j.means.Impact == nil {
		return refuse("the I/O of this program passes no gate, so that its impact cannot be bounded")
	}
	if !(percent >= 0 && percent <= 100) {
		return refuse("an impact of %g %% is not a percentage from 0 to 100", percent)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.means.Impact(percent / 100)
	return j.changed(j.policy, []string{fmt.Sprintf("Others may lose %g %% of their speed.", percent)})
}

// shownCommand returns a command line without passwords and what yields them: such as the value of --password-command,
// and a password in an address.
func shownCommand(args []string) []string {
	const hidden = "***"
	var shown []string
	follows := false // the value of a secret flag
	for _, arg := range args {
		name, _, assigned := strings.Cut(arg, "=")
		secret := secretFlag(name)
		switch {
		case follows:
			arg = hidden
		case secret && assigned:
			arg = name + "=" + hidden
		default:
			arg = store.Mask(arg)
		}
		follows = !follows && secret && !assigned
		shown = append(shown, arg)
	}
	return shown
}

// secretFlag reports whether the value of a flag, of this program or one that it starts, may contain a password.
func secretFlag(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "-") && strings.Contains(name, "password") && !strings.HasSuffix(name, "file")
}
