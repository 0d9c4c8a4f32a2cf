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
type Snapshot struct{ repo.Listed }

// Text writes the head of a listing.
func (s *Snapshot) Text(w *show.Page) {
	note := ""
	if s.Snapshot.Description != "" {
		note = ": " + human.Printable(s.Snapshot.Description)
	}
	w.Linef("snapshot %s of %s at %s by %s@%s%s", s.ID.Short(),
		printableList(s.Snapshot.Sources, ", "), stamp(s.Snapshot.Time), human.Printable(s.Snapshot.User),
		human.Printable(s.Snapshot.Host), note)
}

func printableList(list []string, separator string) string {
	var b []string
	for _, one := range list {
		b = append(b, human.Printable(one))
	}
	return strings.Join(b, separator)
}

// Events returns the snapshot record.
func (s *Snapshot) Events() []any {
	sn := s.Snapshot
	e := &event.Snapshot{
		Type: "snapshot", ID: s.ID.String(), ShortID: s.ID.Short(), Time: sn.Time.Std(), Tree: sn.Tree.String(),
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
	return []any{e}
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
func (s *Snapshots) Events() []any {
	var all []any
	for _, one := range s.List {
		all = append(all, (&Snapshot{one}).Events()...)
	}
	return all
}
