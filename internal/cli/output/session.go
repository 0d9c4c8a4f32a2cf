package output

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Backup is the end of a backup. Of the summary, DryRun, FilesMended, Repository, RetentionWaits and Warnings are set.
type Backup struct {
	Ledger  *report.Ledger
	ID      format.ID // zero: no snapshot was saved
	Skipped bool      // nothing had changed, and the user wanted no snapshot then
	Found   []backup.Found
	event.BackupSummary
}

// Text writes what became of the backup, and the report.
func (b *Backup) Text(w *show.Page) {
	s := show.Short{Lead: "snapshot " + b.ID.Short() + " saved"}
	switch {
	case b.DryRun:
		s.Lead = "dry run: nothing was written"
	case b.Skipped:
		s.Lead = "nothing changed since the parent snapshot: no snapshot was saved"
	}
	if b.FilesMended > 0 {
		s.Facts = append(s.Facts, fmt.Sprintf("repaired: %s that had lost data in the repository",
			human.Plural(b.FilesMended, "file")))
	}
	if b.RetentionWaits != "" {
		s.Facts = append(s.Facts, "retention waits: "+b.RetentionWaits)
	}
	writeReport(w, b.Ledger, s)
}

// Events returns the summary.
func (b *Backup) Events() []any {
	t := b.Ledger.Snapshot()
	return []any{b.summary(&t)}
}

func (b *Backup) summary(t *report.Totals) *event.BackupSummary {
	s := &b.BackupSummary
	s.Type, s.Workers, s.ErrorCount, s.Sources = "summary", t.PoolSizes, t.Failures, []event.Source{}
	if !b.ID.IsZero() {
		s.SnapshotID = b.ID.String()
	}
	s.FilesNew, s.FilesChanged, s.FilesUnmodified = t.Files.New, t.Files.Changed, t.Files.Unmodified
	s.DirsNew, s.DirsChanged, s.DirsUnmodified = t.Dirs.New, t.Dirs.Changed, t.Dirs.Unmodified
	s.OthersNew, s.OthersChanged, s.OthersSame = t.Others.New, t.Others.Changed, t.Others.Unmodified
	s.DataBlobs, s.TreeBlobs = t.Blobs.New, t.Trees.New
	s.DataAdded, s.DataAddedPacked = t.Bytes.AfterDedup+t.Bytes.Trees, t.Bytes.Stored
	s.TotalFiles, s.TotalBytes = t.Files.New+t.Files.Changed+t.Files.Unmodified, t.Bytes.Inspected
	s.BackupStart, s.BackupEnd, s.TotalDuration = t.Start, t.Start.Add(t.Elapsed), t.Elapsed.Seconds()
	s.Derived, s.Figures = t.Derive(), event.NewFigures(t)
	for i := range b.Found {
		f := &b.Found[i]
		s.Sources = append(s.Sources, event.Source{Path: event.NewPath(f.Path), State: f.State.String(), Files: f.Files,
			Bytes: f.Bytes, Failed: f.Failed, ExpectedFiles: f.Expected.Files, ExpectedBytes: f.Expected.Bytes,
			Accepted: f.Accepted != 0, Message: f.Message})
	}
	return s
}

// issuesShown is how many failures a full report repeats.
const issuesShown = 20

// writeReport writes a short report; or a full one: all figures, what went wrong, and what a short one starts with.
func writeReport(w *show.Page, l *report.Ledger, s show.Short) {
	t := l.Snapshot()
	if !w.Full {
		show.WriteShort(w, l, &t, s)
		return
	}
	writeSession(w, &t)
	fmt.Fprintln(w)
	l.WriteIssues(&w.Buffer, issuesShown)
	w.Linef("%s", strings.Join(append(s.Facts, s.Lead), "\n"))
}

// writeSession writes an empty line and the session report, with the devices at which the job never yielded.
func writeSession(w *show.Page, t *report.Totals) {
	fmt.Fprintln(w)
	show.WriteSession(w, t)
	var more show.Page
	if show.WriteUndisturbed(&more, t); more.Len() > 0 {
		fmt.Fprint(w, "\n", more.String())
	}
}

// Restore is the end of a restore.
type Restore struct {
	Ledger        *report.Ledger `json:"-"`
	Target        string         `json:"-"`
	Hint          string         `json:"-"` // what to do about metadata that could not be set; "" for nothing
	DryRun        bool           `json:"dry_run,omitempty"`
	TotalFiles    uint64         `json:"total_files"`    // selected objects
	FilesRestored uint64         `json:"files_restored"` // as in `status`
	FilesSkipped  uint64         `json:"files_skipped"`
	FilesDeleted  uint64         `json:"files_deleted"`        // by `--delete`
	Replaced      uint64         `json:"files_replaced"`       // existing objects that were replaced
	Newer         uint64         `json:"newer_files_replaced"` // of these, changed after the snapshot
	TotalBytes    uint64         `json:"total_bytes"`          // selected file data
	BytesRestored uint64         `json:"bytes_restored"`       // as in `status`
	ErrorCount    uint64         `json:"error_count"`          // events
	RemarkCount   uint64         `json:"remark_count"`
	event.Ending
}

// Text writes what became of the restore, and the report.
func (r *Restore) Text(w *show.Page) {
	o := &r.Ledger.Objects
	restored, kept, deleted := o.Restored.Load(), o.Kept.Load(), o.Deleted.Load()
	verbs := [4]string{"restored", "left", "deleted", "replaced"}
	if r.DryRun {
		verbs = [4]string{"dry run: would restore", "leave", "delete", "replace"}
	}
	text := fmt.Sprintf("%s %s to %s", verbs[0], human.Plural(restored, "object"), human.Printable(r.Target))
	if kept > 0 {
		text += fmt.Sprintf("; %s %s as they were", verbs[1], human.Plural(kept, "object"))
	}
	if deleted > 0 {
		text += fmt.Sprintf("; %s %s", verbs[2], human.Plural(deleted, "object"))
	}
	if failed := o.Failed.Load(); failed > 0 {
		text += fmt.Sprintf("; %s failed", human.Plural(failed, "object"))
	}
	if r.Replaced > 0 {
		text += fmt.Sprintf("; %s %s", verbs[3], human.Plural(r.Replaced, "existing object"))
		if r.Newer > 0 {
			text += fmt.Sprintf(" (%d changed after the snapshot)", r.Newer)
		}
	}
	if r.DryRun {
		text += "; nothing was written"
	}
	s := show.Short{Lead: text}
	if r.Hint != "" {
		s.Facts = append(s.Facts, r.Hint)
	}
	writeReport(w, r.Ledger, s)
}

// Events returns the summary.
func (r *Restore) Events() []any {
	t := r.Ledger.Snapshot()
	p := t.Progress()
	r.FilesRestored, r.FilesSkipped, r.FilesDeleted = t.Objects.Restored, t.Objects.Kept, t.Objects.Deleted
	r.TotalFiles, r.TotalBytes, r.BytesRestored = p.ObjectsTotal, p.BytesTotal, t.Bytes.Restored
	r.ErrorCount, r.RemarkCount, r.Ending = t.Failures, t.Notes, event.NewEnding(&t)
	return []any{event.Of("summary", r)}
}

// Reread is what came of reading unchanged files again after a backup: a line, and what to do about each file that
// differs.
func Reread(r *backup.Reread) Record {
	return one("reread", r, func(w *show.Page) {
		fmt.Fprintf(w, "reread %s (%s) in %s\n", human.Plural(r.Files, "unchanged file"), human.Size(r.Bytes),
			human.Span(time.Duration(r.Seconds*float64(time.Second))))
		for _, err := range r.Unreadable {
			fmt.Fprintf(w, "warning: cannot reread an unchanged file: %s\n", human.Printable(err))
		}
		for i := range r.Differing {
			fmt.Fprintf(w, "warning: %s differs from snapshot %s although its change time is the same: a write was missed, "+
				"or the file is damaged\n", human.Printable(r.Differing[i].Exact()), r.Old.Short())
		}
		if len(r.Differing) > 0 {
			fmt.Fprintf(w, "Snapshot %s keeps the old content; the next backup stores the new one. Compare the two, then "+
				"remove the old one with 'tidemark forget %s'.\n", r.Protected.Short(), r.Protected.Short())
		}
	})
}

type wouldDo struct {
	// `restore`, `replace`, `update` (metadata only), `leave` or `delete`
	What string `json:"action"`
	event.Path
	Why string `json:"reason"` // text
}

// Would is what a dry run of a restore would do with one object, and why: a line.
func Would(path, what, why string) Record {
	return one("would", &wouldDo{what, event.NewPath(path), why}, func(w *show.Page) {
		fmt.Fprintf(w, "would %s %s: %s\n", what, human.Printable(path), why)
	})
}

// DryRun is what a command would have done.
func DryRun(would string) Record {
	return one("dry_run", map[string]string{"would": would}, func(w *show.Page) {
		fmt.Fprintf(w, "dry run: would %s; nothing was written\n", human.Printable(would))
	})
}
