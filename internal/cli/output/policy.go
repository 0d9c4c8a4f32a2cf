package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Policy lists the I/O policy and its numbers.
type Policy struct {
	List    []options.Effective
	Origins bool // in text too
}

// Text writes a line for each as sysctl does, so that what reads that can read this.
func (p *Policy) Text(w io.Writer) error {
	for _, one := range p.List {
		line := one.Name + ": " + one.Value
		if p.Origins {
			line = fmt.Sprintf("%-48s # %s", line, human.Printable(one.Origin))
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Events returns a record for each.
func (p *Policy) Events() []any { return (&Options{List: p.List}).Events() }
