package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Change is one line of a diff: the status and the path, a directory with a slash.
func Change(c *browse.Change) Record {
	return one("change", c, func(w *show.Page) {
		path := human.Printable(c.Exact())
		if n := c.New; n != nil && n.Type == tree.Dir || n == nil && c.Old.Type == tree.Dir {
			path += "/"
		}
		fmt.Fprintf(w, "%-4s %s\n", c.Status, path)
	})
}

// DiffStats ends a diff.
type DiffStats struct {
	From string `json:"source_snapshot"`
	To   string `json:"target_snapshot"` // ID; a folder of this machine; empty: the files of this machine
	Live bool   `json:"-"`               // compared with this machine
	browse.DiffStats
}

// Text writes the totals of what was added and removed.
func (d *DiffStats) Text(w *show.Page) {
	s := &d.DiffStats
	fmt.Fprintf(w, "\n%-8s  %12s  %12s  %12s  %12s\n", "", "files", "directories", "others", "data")
	for _, side := range []struct {
		name string
		s    browse.Side
	}{{"added", s.Added}, {"removed", s.Removed}} {
		fmt.Fprintf(w, "%-8s  %12s  %12s  %12s  %12s\n", side.name, human.Count(side.s.Files),
			human.Count(side.s.Dirs), human.Count(side.s.Others), human.Size(side.s.Bytes))
	}
	data := "chunks and trees that only one side needs, each counted once (after deduplication), before compression"
	if d.Live {
		data = "sizes of the files that were added, removed or changed"
	}
	fmt.Fprintf(w, "%-8s  %12s\n\n%s\n", "changed", human.Count(s.Changed), w.Prose("data: "+data))
}

// Events returns the statistics record.
func (d *DiffStats) Events() []any { return []any{event.Of("statistics", d)} }
