package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Snapshot is one snapshot: in text a line about it, as the head of a listing.
func Snapshot(l *repo.Listed) Record {
	return one("snapshot", snapshotEvent(l), func(w *show.Page) {
		s, note := l.Snapshot, ""
		if s.Description != "" {
			note = ": " + human.Printable(s.Description)
		}
		w.Linef("snapshot %s of %s at %s by %s@%s%s", l.ID.Short(), printableList(s.Sources, ", "), stamp(s.Time),
			human.Printable(s.User), human.Printable(s.Host), note)
	})
}

func printableList(list []string, separator string) string {
	var b []string
	for _, one := range list {
		b = append(b, human.Printable(one))
	}
	return strings.Join(b, separator)
}

func snapshotEvent(l *repo.Listed) *event.Snapshot {
	sn := l.Snapshot
	e := &event.Snapshot{
		ID: l.ID.String(), ShortID: l.ID.Short(), Time: sn.Time.Std(), Tree: sn.Tree.String(),
		Hostname: sn.Host, Username: sn.User, UID: sn.UID, GID: sn.GID, Tags: sn.Tags, Note: sn.Description,
		Program: sn.Program,
		System:  sn.System, TotalFiles: sn.Stats.Content.Files, TotalBytes: sn.Stats.Content.Bytes,
		Failed: sn.Stats.Objects.Failed, Partial: sn.Partial, Paths: event.Paths(sn.Sources), Domain: event.Paths(sn.Domain),
	}
	if !sn.Parent.IsZero() {
		e.Parent = sn.Parent.String()
	}
	if !sn.Original.IsZero() {
		e.Original = sn.Original.String()
	}
	return e
}

// Heading stands above what was found in a snapshot. Scripts find the snapshot in each record.
func Heading(l *repo.Listed) Record {
	return &result{func(w *show.Page) {
		fmt.Fprintf(w, "in snapshot %s of %s:\n", l.ID.Short(), stamp(l.Snapshot.Time))
	}, nil}
}

// Snapshots is a list of them under a heading.
type Snapshots struct {
	Heading string // "" for none
	List    []repo.Listed
	Compact bool // without paths and sizes
}

// Text writes a table.
func (s *Snapshots) Text(w *show.Page) {
	if s.Heading != "" {
		fmt.Fprintln(w, s.Heading)
	}
	t := table{head: []string{"ID", "Time", "Host~", "Tags~"}}
	if !s.Compact {
		t.head = append(t.head, "Paths~", "Size>")
	}
	for _, one := range s.List {
		sn := one.Snapshot
		tags := printableList(sn.Tags, ",")
		if sn.Partial {
			tags = strings.TrimSpace("(partial) " + tags)
		}
		cells := []string{one.ID.Short(), stamp(sn.Time), human.Printable(sn.Host), tags}
		if !s.Compact {
			cells = append(cells, printableList(sn.Sources, "\n"), human.Size(sn.Stats.Content.Bytes))
		}
		t.add(cells...)
	}
	if len(s.List) > 0 {
		t.write(w)
	}
	fmt.Fprintln(w, human.Plural(uint64(len(s.List)), "snapshot"))
}

// Events returns a record for each snapshot.
func (s *Snapshots) Events() (all []any) {
	for i := range s.List {
		all = append(all, event.Of("snapshot", snapshotEvent(&s.List[i])))
	}
	return all
}
