package output

import (
	"fmt"
	"io"
	"time"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ContentVersion is one of the contents that a file had.
type ContentVersion struct {
	browse.Version
	Host         string // "": all snapshots are of one machine
	Repository   string // that the command names; "": none
	Saved, Until time.Time
	First        bool // of this path
}

// Text writes two lines, and a heading for each path.
func (v *ContentVersion) Text(w io.Writer) error {
	if v.First {
		where := human.Printable(v.Path)
		if v.Host != "" {
			where += " on " + human.Printable(v.Host)
		}
		if _, err := fmt.Fprintln(w, where); err != nil {
			return err
		}
	}
	what, in := typeName(v.Node.Type), "in snapshot "+v.Last.Short()+" of "+v.Until.Format(time.DateTime)
	switch v.Node.Type {
	case tree.File:
		what = human.Size(v.Node.Size)
	case tree.Symlink:
		what += " -> " + human.Printable(v.Node.Target)
	}
	if v.Node.Outcome == tree.Skipped || v.Node.Outcome == tree.Unreadable {
		what = outcome(v.Node.Outcome)
	}
	if v.Count > 1 {
		in = fmt.Sprintf("in %d snapshots, %s to %s", v.Count, v.Saved.Format(time.DateTime), v.Until.Format(time.DateTime))
	}
	command := "tidemark restore " + human.ShellWord(v.Last.Short()+":"+v.Path) + " --target DIR"
	if v.Repository != "" {
		command += " --repo " + human.ShellWord(v.Repository)
	}
	_, err := fmt.Fprintf(w, "%s\n      %s\n", show.Prose(w, "  "+stamp(v.Node.ModTime)+"  "+what+", "+in), command)
	return err
}

// Events returns the version record.
func (v *ContentVersion) Events() []any {
	e := &event.ContentVersion{Type: "version", Path: event.NewPath(v.Path), NodeType: typeName(v.Node.Type), Host: v.Host,
		ModTime: written(v.Node.ModTime), First: v.Version.First.String(), Saved: v.Saved, Last: v.Last.String(),
		Until: v.Until, Snapshots: v.Count, Active: v.Active, Outcome: outcomeKey(v.Node.Outcome)}
	if v.Node.Type == tree.File {
		e.Size = &v.Node.Size
	}
	return []any{e}
}
