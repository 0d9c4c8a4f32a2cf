package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Backup is the end of a backup.
type Backup struct {
	Ledger   *report.Ledger
	ID       format.ID // zero: no snapshot was saved
	InRepo   string    // ID of the repository
	DryRun   bool
	Skipped  bool   // nothing had changed, and the user wanted no snapshot then
	Mended   uint64 // files that were stored again because the repository had lost data of them
	Sources  []backup.Found
	Waits    string   // why forget removes no snapshot of these sources; "": it may
	Warnings []string // of damaged snapshots and suspicious changes
	Full     bool     // the report with all figures
}

// Text writes what became of the backup, and the report.
func (b *Backup) Text(w io.Writer) error {
	s := show.Short{Lead: "snapshot " + b.ID.Short() + " saved"}
	switch {
	case b.DryRun:
		s.Lead = "dry run: nothing was written"
	case b.Skipped:
		s.Lead = "nothing changed since the parent snapshot: no snapshot was saved"
	}
	if b.Mended > 0 {
		s.Facts = append(s.Facts, fmt.Sprintf("repaired: %s that had lost data in the repository",
			human.Plural(b.Mended, "file")))
	}
	if b.Waits != "" {
		s.Facts = append(s.Facts, "retention waits: "+b.Waits)
	}
	return writeReport(w, b.Ledger, s, b.Full)
}

// Brief returns the ID of the snapshot, "" if none was saved.
func (b *Backup) Brief() string {
	if b.ID.IsZero() {
		return ""
	}
	return b.ID.String()
}

// Events returns the summary.
func (b *Backup) Events() []any {
	t := b.Ledger.Snapshot()
	return []any{b.summary(&t)}
}

func (b *Backup) summary(t *report.Totals) *event.BackupSummary {
	s := &event.BackupSummary{
		Type: "summary", DryRun: b.DryRun, SnapshotID: b.Brief(), Repository: b.InRepo, Workers: t.PoolSizes,
		FilesNew: t.Files.New, FilesChanged: t.Files.Changed, FilesUnmodified: t.Files.Unmodified,
		FilesMended: b.Mended, DirsNew: t.Dirs.New, DirsChanged: t.Dirs.Changed, DirsUnmodified: t.Dirs.Unmodified,
		OthersNew: t.Others.New, OthersChanged: t.Others.Changed, OthersSame: t.Others.Unmodified,
		DataBlobs: t.Blobs.New, TreeBlobs: t.Trees.New,
		DataAdded: t.Bytes.AfterDedup + t.Bytes.Trees, DataAddedPacked: t.Bytes.Stored,
		TotalFiles: t.Files.New + t.Files.Changed + t.Files.Unmodified, TotalBytes: t.Bytes.Inspected,
		BackupStart: t.Start, BackupEnd: t.Start.Add(t.Elapsed), TotalDuration: t.Elapsed.Seconds(),
		ErrorCount: t.Failures, Sources: []event.Source{}, RetentionWaits: b.Waits, Warnings: b.Warnings,
		Derived: t.Derive(), Figures: event.NewFigures(t),
	}
	for i := range b.Sources {
		f := &b.Sources[i]
		s.Sources = append(s.Sources, event.Source{Path: event.NewPath(f.Path), State: f.State.String(), Files: f.Files,
			Bytes: f.Bytes, Failed: f.Failed, ExpectedFiles: f.Expected.Files, ExpectedBytes: f.Expected.Bytes,
			Accepted: f.Accepted != 0, Message: f.Message})
	}
	return s
}

// issuesShown is how many failures a full report repeats.
const issuesShown = 20

// writeReport writes a short report; or a full one: all figures, what went wrong, and what a short one starts with.
func writeReport(w io.Writer, l *report.Ledger, s show.Short, full bool) error {
	t := l.Snapshot()
	if !full {
		return show.WriteShort(w, l, &t, s)
	}
	if err := writeSession(w, &t); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := l.WriteIssues(w, issuesShown); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, show.Prose(w, strings.Join(append(s.Facts, s.Lead), "\n")))
	return err
}

// writeSession writes an empty line and the session report, with the devices at which the job never yielded.
func writeSession(w io.Writer, t *report.Totals) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := show.WriteSession(w, t); err != nil {
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
	Ledger        *report.Ledger `json:"-"`
	Target        string         `json:"-"`
	Hint          string         `json:"-"` // what to do about metadata that could not be set; "" for nothing
	Full          bool           `json:"-"` // as of Backup
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
func (r *Restore) Text(w io.Writer) error {
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
	return writeReport(w, r.Ledger, s, r.Full)
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
