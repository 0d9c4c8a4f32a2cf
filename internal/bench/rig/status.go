package rig

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Gate returns the busiest gate of the backup that runs. It is ErrNoGates if there is no backup or it has no gate.
func (d *Disk) Gate(ctx context.Context) (event.Gate, error) {
	jobs, err := control.Jobs(filepath.Join(d.runtime, "tidemark"))
	if err != nil {
		return event.Gate{}, err
	}
	for _, j := range jobs {
		s, err := j.Status(ctx)
		if errors.Is(err, control.ErrGone) {
			continue
		}
		if err != nil {
			return event.Gate{}, err
		}
		if s.Status != nil && len(s.Status.Gates) > 0 {
			return *busiest(s.Status.Gates), nil
		}
	}
	return event.Gate{}, ErrNoGates
}
