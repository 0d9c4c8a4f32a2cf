package backup

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// earlierBackups are snapshots of /a of this host that stored so much new data.
func earlierBackups(sizes ...uint64) (listed []repo.Listed) {
	for _, size := range sizes {
		sn := &snapshot.Snapshot{Host: "here", Sources: []string{"/a"}}
		sn.Stats.Bytes.AfterDedup = size
		listed = append(listed, repo.Listed{Snapshot: sn})
	}
	return listed
}

// many are n snapshots with as much new data.
func many(size uint64, n int) []repo.Listed {
	return earlierBackups(slices.Repeat([]uint64{size}, n)...)
}

func TestTenTimesTheUsualGrowthIsNamed(t *testing.T) {
	const mb = 1 << 20
	now := &snapshot.Snapshot{Host: "here", Sources: []string{"/a"}}
	other := earlierBackups(900*mb, 900*mb, 900*mb)
	other[0].Snapshot.Host = "elsewhere"
	other[1].Snapshot.Sources = []string{"/a", "/b"}
	other[2].Snapshot.Partial = true
	bad := repo.Listed{Err: errors.New("damaged")}
	for what, c := range map[string]struct {
		listed []repo.Listed
		added  uint64
		named  bool
	}{
		"ten times":                       {earlierBackups(9000*mb, 69*mb, 69*mb, 2*mb, 69*mb), 690 * mb, true},
		"not quite":                       {earlierBackups(9000*mb, 69*mb, 69*mb, 2*mb, 69*mb), 690*mb - 10, false},
		"too few before":                  {earlierBackups(1, 1), 690 * mb, false},
		"too little":                      {earlierBackups(1, 1, 1), 64*mb - 1, false},
		"just enough":                     {earlierBackups(1, 1, 1), 64 * mb, true},
		"nothing as a rule":               {earlierBackups(9000*mb, 0, 0), 690 * mb, true},
		"others do not count":             {append(append(other, bad), earlierBackups(1, 1)...), 690 * mb, false},
		"others do not hide it":           {append(append(other, bad), earlierBackups(1, 1, 1)...), 690 * mb, true},
		"what was long ago does not hide": {append(many(9e9, 11), many(1, 6)...), 690 * mb, true},
		"as much as usual of late":        {append(many(1, 8), many(690*mb, 6)...), 690 * mb, false},
	} {
		g := newGrowth(c.listed, now)
		if g != nil {
			rest := g.folder("/a/videos", 300*mb, 0) + g.folder("/a/mail", 200*mb, 0) + g.folder("/a/x", 100*mb, 0)
			rest += g.folder("/a/y", 90*mb, 0) + g.folder("/a/few", 10, 0)
			g.folder("/", 0, g.folder("/a", 0, rest))
		}
		if c.named { // a stream has no folders
			require.NotContains(t, newGrowth(c.listed, now).warning(c.added), "most of it", what)
		}
		text := g.warning(c.added)
		require.Equal(t, c.named, text != "", "%s: %s", what, text)
		if c.named {
			require.Contains(t, text, "most of it in /a/videos/ (300.00 MiB), /a/mail/ (200.00 MiB), /a/x/ (100.00 MiB): ", what)
		}
	}
}
