package output

import (
	"cmp"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// replaced returns "4f3a90b1 -> 9c1d22aa", or the old ID in a dry run.
func replaced(c *rewrite.Changed) string {
	if c.New.IsZero() {
		return c.Old.ID.Short()
	}
	return c.Old.ID.Short() + " -> " + c.New.Short()
}

// The verbs that put new snapshots in the place of others.
const (
	Tag     = "tag"
	Undo    = "undo"
	Rewrite = "rewrite"
)

// Rewritten are snapshots in whose place new ones were put.
type Rewritten struct {
	Verb      string            `json:"-"`
	List      []rewrite.Changed `json:"-"`
	DryRun    bool              `json:"dry_run,omitempty"`
	Snapshots uint64            `json:"snapshots,omitempty"`       // examined by `rewrite`
	Changed   int               `json:"changed_snapshots"`         // replaced by new ones
	Empty     int               `json:"empty_snapshots,omitempty"` // kept, since nothing would be left
	Forgotten bool              `json:"originals_removed"`         // by --forget
}

// Text writes a line for each snapshot, and the sum.
func (r *Rewritten) Text(w *show.Page) {
	for i := range r.List {
		c := &r.List[i]
		line := replaced(c)
		switch r.Verb {
		case Tag:
			line += ": " + cmp.Or(printableList(c.Snapshot.Tags, ","), "no tags")
		case Rewrite:
			line += fmt.Sprintf(": %s %s, %s", would(r.DryRun, "left out:"), human.Plural(c.Left.Objects(), "object"),
				human.Size(c.Left.Bytes))
		}
		fmt.Fprintln(w, line)
	}
	changed := human.Plural(uint64(len(r.List)), "snapshot")
	switch {
	case r.Verb == Tag:
		fmt.Fprintf(w, "tags %s: %s\n", would(r.DryRun, "changed"), changed)
	case r.Verb == Undo:
		fmt.Fprintf(w, "%s: %s\n", would(r.DryRun, "brought back"), changed)
	default:
		fmt.Fprintf(w, "%s: %d of %s", would(r.DryRun, "rewritten"), len(r.List), human.Plural(r.Snapshots, "snapshot"))
		switch {
		case len(r.List) == 0 || r.DryRun:
		case r.Forgotten:
			w.WriteString("; the originals are removed; 'tidemark prune' frees the space")
		default:
			w.WriteString("; the originals stay (--forget removes them)")
		}
		fmt.Fprintln(w)
	}
}

// Events returns a record for each snapshot and the summary.
func (r *Rewritten) Events() (all []any) {
	for i := range r.List {
		c := &r.List[i]
		all = append(all, event.Of("changed", &ChangedSnapshot{DryRun: r.DryRun, Old: c.Old.ID, New: c.New,
			Tags: list(c.Snapshot.Tags), Files: c.Left.Files, Dirs: c.Left.Dirs, Others: c.Left.Others, Bytes: c.Left.Bytes}))
	}
	r.Changed = len(r.List)
	return append(all, event.Of("summary", r))
}

// ChangedSnapshot is a snapshot in whose place a new one was put.
type ChangedSnapshot struct {
	DryRun bool      `json:"dry_run,omitempty"`
	Old    format.ID `json:"old_snapshot_id"`          // the original
	New    format.ID `json:"new_snapshot_id,omitzero"` // none in a dry run
	Tags   []string  `json:"tags"`                     // of the new one
	Files  uint64    `json:"files_excluded,omitempty"` // left out by `rewrite`
	Dirs   uint64    `json:"dirs_excluded,omitempty"`
	Others uint64    `json:"others_excluded,omitempty"`
	Bytes  uint64    `json:"bytes_excluded,omitempty"`
}

// LeftOut is an object that a rewrite leaves out: one line.
func LeftOut(l *rewrite.Excluded) Record {
	return one("excluded", l, func(w *show.Page) {
		path, what := human.Printable(l.Exact()), ""
		switch l.Type {
		case tree.File:
			what = " (" + human.Size(l.Bytes) + ")"
		case tree.Dir:
			path += "/"
			what = fmt.Sprintf(" (%s, %s)", human.Plural(l.Objects()-1, "object"), human.Size(l.Bytes))
		}
		fmt.Fprintf(w, "%s: - %s%s\n", l.Snapshot.Short(), path, what)
	})
}
