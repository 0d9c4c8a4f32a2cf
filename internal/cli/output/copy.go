package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/copy"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// CopiedSnapshot is what became of one snapshot that was to be copied: a line.
func CopiedSnapshot(c copy.Snapshot, dry bool) Record {
	c.DryRun, c.Original = dry, c.Source.ID
	if c.Err != nil {
		c.Error = c.Err.Error()
	}
	return one("copied", &c, func(w *show.Page) {
		what := c.Source.ID.Short() + " of " + printableList(c.Source.Snapshot.Sources, ", ") + " at " +
			stamp(c.Source.Snapshot.Time)
		switch {
		case c.Err != nil:
			fmt.Fprintf(w, "failed  %s: %v\n", what, c.Err)
		case c.There:
			fmt.Fprintf(w, "skipped %s is %s\n", what, c.Copy.Short())
		case dry:
			fmt.Fprintf(w, "would copy %s\n", what)
		default:
			fmt.Fprintf(w, "copied  %s is %s\n", what, c.Copy.Short())
		}
	})
}

type copied struct {
	DryRun bool `json:"dry_run,omitempty"`
	*copy.Result
	event.Ending
}

// Copied ends a copy: the sums.
func Copied(l *report.Ledger, r *copy.Result, dry bool) Record {
	t := l.Snapshot()
	return one("summary", &copied{dry, r, event.NewEnding(&t)}, func(w *show.Page) {
		fmt.Fprintf(w, "%s: %s; copied earlier: %d; failed: %d\n", would(dry, "copied"), human.Plural(r.Copied, "snapshot"),
			r.There, r.Failed)
		if r.SameKey {
			fmt.Fprintln(w, "the repositories have the same master key: data kept its IDs")
		} else {
			w.Linef("the repositories have different master keys: data got new IDs, and chunks are the same")
		}
		if dry {
			return
		}
		fmt.Fprintf(w, "stored: %s of file data with %s, %s of trees; the repository grew by %s\n",
			human.Plural(r.Blobs, "chunk"), human.Size(r.BlobBytes), human.Plural(r.Trees, "page"), human.Size(r.BytesStored))
		if w.Full {
			writeSession(w, &t)
		}
	})
}
