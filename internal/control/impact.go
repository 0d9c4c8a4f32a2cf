package control

import (
	"context"
	"fmt"
)

// Budgeted is an optional interface of a Job whose I/O passes gates.
type Budgeted interface {
	// SetMaxImpact changes the part of their speed that others may lose, from 0 to 1.
	SetMaxImpact(part float64)
}

// SetMaxImpact changes how much of their speed others may lose, in percent. The policy stays.
func (r Running) SetMaxImpact(ctx context.Context, percent float64) (Change, error) {
	var c Change
	q := request{Version: protocol, Request: setImpact, MaxImpact: percent}
	if err := r.ask(ctx, q, "policy_change", &c); err != nil {
		return Change{}, fmt.Errorf("set impact of process %d: %w", r.PID, err)
	}
	return c, nil
}

func (s *jobServer) setImpact(percent float64) any {
	job, ok := s.job.(Budgeted)
	if !ok {
		return refuse("the I/O of this program passes no gate, so that its impact cannot be bounded")
	}
	if !(percent >= 0 && percent <= 100) {
		return refuse("an impact of %g %% is not a percentage from 0 to 100", percent)
	}
	s.change.Lock()
	defer s.change.Unlock()
	status := s.job.Status()
	job.SetMaxImpact(percent / 100)
	return s.changed(status.Policy, status.Policy, status.PolicyUntil,
		[]string{fmt.Sprintf("Others may lose %g %% of their speed.", percent)})
}
