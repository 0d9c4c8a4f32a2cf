package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/copy"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// CopiedSnapshot is what became of one snapshot that was to be copied.
type CopiedSnapshot struct {
	copy.Snapshot
	DryRun bool
}

// Text writes a line.
func (c *CopiedSnapshot) Text(w io.Writer) error {
	what := c.Source.ID.Short() + " of " + printableList(c.Source.Snapshot.Sources, ", ") + " at " +
		stamp(c.Source.Snapshot.Time)
	var err error
	switch {
	case c.Err != nil:
		_, err = fmt.Fprintf(w, "failed  %s: %v\n", what, c.Err)
	case c.There:
		_, err = fmt.Fprintf(w, "skipped %s is %s\n", what, c.Copy.Short())
	case c.DryRun:
		_, err = fmt.Fprintf(w, "would copy %s\n", what)
	default:
		_, err = fmt.Fprintf(w, "copied  %s is %s\n", what, c.Copy.Short())
	}
	return err
}

// Events returns its record.
func (c *CopiedSnapshot) Events() []any {
	e := &Copy{DryRun: c.DryRun, ID: c.Copy, Original: c.Source.ID, There: c.There}
	if c.Err != nil {
		e.Error = c.Err.Error()
	}
	return []any{event.Of("copied", e)}
}

// Copy is the record of a CopiedSnapshot.
type Copy struct {
	DryRun   bool      `json:"dry_run,omitempty"`
	ID       format.ID `json:"snapshot_id,omitzero"` // ID of the copy
	Original format.ID `json:"original"`             // source snapshot
	There    bool      `json:"already_copied"`       // true if copied earlier
	Error    string    `json:"error,omitempty"`      // data lost in the source; not copied
}

// Copied ends a copy.
type Copied struct {
	Ledger *report.Ledger `json:"-"`
	Full   bool           `json:"-"` // as of Backup
	DryRun bool           `json:"dry_run,omitempty"`
	*copy.Result
	event.Ending
}

// Text writes the sums.
func (c *Copied) Text(w io.Writer) error {
	r, t := c.Result, c.Ledger.Snapshot()
	fmt.Fprintf(w, "%s: %s; copied earlier: %d; failed: %d\n", would(c.DryRun, "copied"),
		human.Plural(r.Copied, "snapshot"), r.There,
		r.Failed)
	if r.SameKey {
		fmt.Fprintln(w, "the repositories have the same master key: data kept its IDs")
	} else {
		fmt.Fprintln(w, show.Prose(w,
			"the repositories have different master keys: data got new IDs, and chunks are the same"))
	}
	if c.DryRun {
		return nil
	}
	_, err := fmt.Fprintf(w, "stored: %s of file data with %s, %s of trees; the repository grew by %s\n",
		human.Plural(r.Blobs, "chunk"), human.Size(r.BlobBytes), human.Plural(r.Trees, "page"), human.Size(r.BytesStored))
	if err != nil || !c.Full {
		return err
	}
	return writeSession(w, &t)
}

// Events returns the summary.
func (c *Copied) Events() []any {
	t := c.Ledger.Snapshot()
	c.Ending = event.NewEnding(&t)
	return []any{event.Of("summary", c)}
}
