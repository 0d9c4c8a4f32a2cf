package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/throttle/priority"
)

// Priority is what became of a process that was given a policy.
type Priority struct {
	PID     int
	Applied priority.Applied
}

// Text writes a line, and one for each thing that could not be done.
func (p *Priority) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "process %d: %s: %s (%s)\n", p.PID, p.Applied.Policy, p.Applied.Now,
		human.Plural(uint64(p.Applied.Threads), "thread"))
	for _, note := range p.Applied.Notes {
		if err == nil {
			_, err = fmt.Fprintln(w, "  "+human.Printable(note))
		}
	}
	return err
}

// Events returns the record.
func (p *Priority) Events() []any {
	notes := p.Applied.Notes
	if notes == nil {
		notes = []string{}
	}
	return []any{&struct {
		Type    string   `json:"message_type"` // "priority"
		PID     int      `json:"pid"`
		Policy  string   `json:"policy"`
		Threads int      `json:"threads"`
		Now     string   `json:"now"`
		Notes   []string `json:"notes"`
	}{"priority", p.PID, p.Applied.Policy.String(), p.Applied.Threads, p.Applied.Now, notes}}
}
