package output

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestTableOfSnapshots: columns, alignment, and one line for each further path.
func TestTableOfSnapshots(t *testing.T) {
	taken := time.Date(2026, time.March, 1, 8, 5, 0, 0, time.Local)
	all := Snapshots{Heading: "those of anna", List: []repo.Listed{
		{ID: format.ID{0x1f, 0x3a, 0x9c, 0x2b}, Snapshot: &snapshot.Snapshot{
			Time: tree.Time{Sec: taken.Unix()}, Host: "anna", Sources: []string{"/home", "/etc"}, Tags: []string{"a", "b"},
			Stats: snapshot.Stats{Content: snapshot.Content{Files: 1234, Bytes: 3 << 30}},
		}},
		{ID: format.ID{0xff}, Snapshot: &snapshot.Snapshot{
			Time: tree.Time{Sec: taken.Unix() + 60}, Host: "an\x1bna", Sources: []string{"/"},
			Stats: snapshot.Stats{Content: snapshot.Content{Files: 1, Bytes: 17}},
		}},
	}}
	show := func() string {
		var b show.Page
		all.Text(&b)
		return b.String()
	}
	require.Equal(t, `those of anna
ID        Time                 Host      Tags  Paths      Size
--------------------------------------------------------------
1f3a9c2b  2026-03-01 08:05:00  anna      a,b   /home  3.00 GiB
                                               /etc
ff000000  2026-03-01 08:06:00  an\x1bna        /          17 B
2 snapshots
`, show())
	all.Compact = true
	require.Equal(t, `those of anna
ID        Time                 Host      Tags
---------------------------------------------
1f3a9c2b  2026-03-01 08:05:00  anna      a,b
ff000000  2026-03-01 08:06:00  an\x1bna
2 snapshots
`, show())
}
