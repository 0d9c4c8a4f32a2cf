package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/copy"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
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
	e := &event.CopiedSnapshot{Type: "copied", Original: c.Source.ID.String(), There: c.There, DryRun: c.DryRun}
	if !c.Copy.IsZero() {
		e.ID = c.Copy.String()
	}
	if c.Err != nil {
		e.Error = c.Err.Error()
	}
	return []any{e}
}

// Copied ends a copy.
type Copied struct {
	Ledger *report.Ledger
	Result *copy.Result
	DryRun bool
	Full   bool // as of Backup
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
		fmt.Fprintln(w, "the repositories have different master keys: data got new IDs, and chunks are the same")
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
	r, t := c.Result, c.Ledger.Snapshot()
	return []any{&event.CopySummary{
		Type: "summary", DryRun: c.DryRun, Copied: r.Copied, There: r.There, Failed: r.Failed, SameKey: r.SameKey,
		DataBlobs: r.Blobs, TreeBlobs: r.Trees, DataAdded: r.BlobBytes, BytesStored: r.BytesStored,
		SecondsElapsed: uint64(t.Elapsed.Seconds()), Figures: event.NewFigures(&t),
	}}
}
