package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/browse"
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

// DiffStats ends a diff: the totals of what was added and removed.
func DiffStats(s *browse.DiffStats) Record {
	return one("statistics", s, func(w *show.Page) {
		fmt.Fprintf(w, "\n%-8s  %12s  %12s  %12s  %12s\n", "", "files", "directories", "others", "data")
		side := func(name string, s *browse.Side) {
			fmt.Fprintf(w, "%-8s  %12s  %12s  %12s  %12s\n", name, human.Count(s.Files), human.Count(s.Dirs),
				human.Count(s.Others), human.Size(s.Bytes))
		}
		side("added", &s.Added)
		side("removed", &s.Removed)
		data := "chunks and trees that only one side needs, each counted once (after deduplication), before compression"
		if s.Live {
			data = "sizes of the files that were added, removed or changed"
		}
		fmt.Fprintf(w, "%-8s  %12s\n\n%s\n", "changed", human.Count(s.Changed), w.Prose("data: "+data))
	})
}
