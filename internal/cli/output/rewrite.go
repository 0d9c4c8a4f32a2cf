package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// replaced returns "4f3a90b1 -> 9c1d22aa", or the old ID in a dry run.
func replaced(c *rewrite.Changed) string {
	if c.New.IsZero() {
		return c.Old.ID.Short()
	}
	return c.Old.ID.Short() + " -> " + c.New.Short()
}

// changedEvent returns the record of a replaced snapshot.
func changedEvent(c *rewrite.Changed, dry bool) *event.ChangedSnapshot {
	e := &event.ChangedSnapshot{Type: "changed", DryRun: dry, Old: c.Old.ID.String(),
		Tags:  append([]string{}, c.Snapshot.Tags...),
		Files: c.Left.Files, Dirs: c.Left.Dirs, Others: c.Left.Others, Bytes: c.Left.Bytes}
	if !c.New.IsZero() {
		e.New = c.New.String()
	}
	return e
}

// Tagged is the result of a change of tags.
type Tagged struct {
	List   []rewrite.Changed
	DryRun bool
}

// Text writes a line for each snapshot, and the sum.
func (t *Tagged) Text(w io.Writer) error {
	var b strings.Builder
	for i := range t.List {
		c := &t.List[i]
		tags := printableList(c.Snapshot.Tags, ",")
		if tags == "" {
			tags = "no tags"
		}
		fmt.Fprintf(&b, "%s: %s\n", replaced(c), tags)
	}
	fmt.Fprintf(&b, "tags %s: %s\n", would(t.DryRun, "changed"), human.Plural(uint64(len(t.List)), "snapshot"))
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns a record for each snapshot and the summary.
func (t *Tagged) Events() (all []any) {
	for i := range t.List {
		all = append(all, changedEvent(&t.List[i], t.DryRun))
	}
	return append(all, &event.RewriteSummary{Type: "summary", DryRun: t.DryRun, Changed: uint64(len(t.List)),
		Forgotten: !t.DryRun})
}

// Undone are forgotten snapshots that are back.
type Undone struct {
	List   []rewrite.Changed
	DryRun bool
}

// Text writes a line for each snapshot, and the sum.
func (u *Undone) Text(w io.Writer) error {
	var b strings.Builder
	for i := range u.List {
		fmt.Fprintln(&b, replaced(&u.List[i]))
	}
	fmt.Fprintf(&b, "%s: %s\n", would(u.DryRun, "brought back"), human.Plural(uint64(len(u.List)), "snapshot"))
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns a record for each snapshot and the summary.
func (u *Undone) Events() (all []any) {
	for i := range u.List {
		all = append(all, changedEvent(&u.List[i], u.DryRun))
	}
	return append(all, &event.RewriteSummary{Type: "summary", DryRun: u.DryRun, Changed: uint64(len(u.List))})
}

// LeftOut is an object that a rewrite leaves out.
type LeftOut struct{ rewrite.Excluded }

// Text writes one line.
func (l *LeftOut) Text(w io.Writer) error {
	path := human.Printable(l.Exact())
	what := ""
	switch l.Type {
	case tree.File:
		what = " (" + human.Size(l.Bytes) + ")"
	case tree.Dir:
		path += "/"
		what = fmt.Sprintf(" (%s, %s)", human.Plural(l.Objects()-1, "object"), human.Size(l.Bytes))
	}
	_, err := fmt.Fprintf(w, "%s: - %s%s\n", l.Snapshot.Short(), path, what)
	return err
}

// Events returns the record.
func (l *LeftOut) Events() []any { return []any{event.Of("excluded", l)} }

// Rewritten is the result of a rewrite.
type Rewritten struct {
	Result         *rewrite.Result
	DryRun, Forget bool
}

// Text writes a line for each snapshot, and the sum.
func (r *Rewritten) Text(w io.Writer) error {
	var b strings.Builder
	for i := range r.Result.Changed {
		c := &r.Result.Changed[i]
		fmt.Fprintf(&b, "%s: %s %s, %s\n", replaced(c), would(r.DryRun, "left out:"),
			human.Plural(c.Left.Objects(), "object"),
			human.Size(c.Left.Bytes))
	}
	fmt.Fprintf(&b, "%s: %d of %s", would(r.DryRun, "rewritten"), len(r.Result.Changed),
		human.Plural(r.Result.Snapshots, "snapshot"))
	switch {
	case len(r.Result.Changed) == 0 || r.DryRun:
	case r.Forget:
		b.WriteString("; the originals are removed; 'tidemark prune' frees the space")
	default:
		b.WriteString("; the originals stay (--forget removes them)")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns a record for each snapshot and the summary.
func (r *Rewritten) Events() (all []any) {
	s := &event.RewriteSummary{Type: "summary", DryRun: r.DryRun, Snapshots: r.Result.Snapshots,
		Changed: uint64(len(r.Result.Changed)), Empty: uint64(len(r.Result.Empty)), Forgotten: r.Forget && !r.DryRun}
	for i := range r.Result.Changed {
		all = append(all, changedEvent(&r.Result.Changed[i], r.DryRun))
	}
	return append(all, s)
}
