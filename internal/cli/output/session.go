package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Backup is the end of a backup.
type Backup struct {
	Ledger  *report.Ledger
	ID      format.ID // zero: no snapshot was saved
	DryRun  bool
	Skipped bool // nothing had changed, and the user wanted no snapshot then
	Verbose bool // tell also of devices on which nobody had to be given way
}

// Text writes the session report, then what became of it.
func (b *Backup) Text(w io.Writer) error {
	t := b.Ledger.Snapshot()
	if err := writeReport(w, b.Ledger, &t, b.Verbose); err != nil {
		return err
	}
	text := "snapshot " + b.ID.Short() + " saved"
	switch {
	case b.DryRun:
		text = "dry run: nothing was written"
	case b.Skipped:
		text = "nothing changed since the parent snapshot: no snapshot was saved"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Events returns the summary.
func (b *Backup) Events() []any {
	t := b.Ledger.Snapshot()
	id := ""
	if !b.ID.IsZero() {
		id = b.ID.String()
	}
	return []any{event.NewBackupSummary(&t, id, b.DryRun)}
}

// issuesShown is how many failures the end of a job repeats.
const issuesShown = 20

// writeReport writes the report, and what went wrong under it, where it is seen.
func writeReport(w io.Writer, l *report.Ledger, t *report.Totals, verbose bool) error {
	if err := writeSession(w, t, verbose); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return l.WriteIssues(w, issuesShown)
}

// writeSession writes an empty line and the session report, and what it leaves out of gates if that is wanted.
func writeSession(w io.Writer, t *report.Totals, verbose bool) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := show.WriteSession(w, t); err != nil || !verbose {
		return err
	}
	var more strings.Builder
	if err := show.WriteUndisturbed(&more, t); err != nil || more.Len() == 0 {
		return err
	}
	_, err := io.WriteString(w, "\n"+more.String())
	return err
}

// Restore is the end of a restore.
type Restore struct {
	Ledger  *report.Ledger
	Target  string
	DryRun  bool
	Hint    string // what to do about metadata that could not be set; "" for nothing
	Verbose bool   // as of Backup
}

// Text writes the session report, then what became of it.
func (r *Restore) Text(w io.Writer) error {
	t := r.Ledger.Snapshot()
	if err := writeReport(w, r.Ledger, &t, r.Verbose); err != nil {
		return err
	}
	if r.Hint != "" {
		fmt.Fprintln(w, r.Hint)
	}
	text := fmt.Sprintf("restored %s to %s", human.Plural(t.Objects.Restored, "object"), human.Printable(r.Target))
	if t.Objects.Kept > 0 {
		text += fmt.Sprintf("; left %s as they were", human.Plural(t.Objects.Kept, "object"))
	}
	if r.DryRun {
		text = "dry run: nothing was written"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Events returns the summary.
func (r *Restore) Events() []any {
	t := r.Ledger.Snapshot()
	return []any{event.NewRestoreSummary(&t, r.DryRun)}
}
