package output

import (
	"fmt"
	"io"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Steered is the state of the service after an order.
type Steered struct {
	Daemon event.Daemon
	Job    string // the order was about this job; "": about all
}

// Text writes a line for each job that was meant.
func (s *Steered) Text(w io.Writer) error {
	for i := range s.Daemon.Jobs {
		j := &s.Daemon.Jobs[i]
		if s.Job != "" && s.Job != j.Name {
			continue
		}
		text := j.State
		switch {
		case j.Step != "":
			text += " (" + j.Step + ")"
		case j.WaitsFor != "":
			text += ": " + human.Printable(j.WaitsFor)
		case j.PausedUntil != nil:
			text += " until " + j.PausedUntil.Local().Format(time.DateTime)
		case j.Next != nil:
			text += ", next run " + j.Next.Local().Format(time.DateTime)
		}
		if _, err := fmt.Fprintf(w, "job %s: %s\n", human.Printable(j.Name), text); err != nil {
			return err
		}
	}
	return nil
}

// Events returns the state of the service.
func (s *Steered) Events() []any { return []any{&s.Daemon} }
