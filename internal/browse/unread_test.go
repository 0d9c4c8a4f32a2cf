package browse

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A live folder or object that cannot be read is a problem, and neither it nor what it holds counts as removed.
func TestUnreadLiveFilesAreNoDifference(t *testing.T) {
	parent, err := localfs.IOContext{}.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer parent.Release()
	var problems []string
	s := &liveSide{Live: Live{Problem: func(path string, _ error) { problems = append(problems, path) }}}
	d := &differ{live: s, visit: func(c Change) error { t.Errorf("%s %s", c.Status, c.Exact()); return nil }}
	long := strings.Repeat("x", 300) // no system opens it, not even for root
	old := content(func(context.Context, *error) iter.Seq[item] {
		return func(yield func(item) bool) { yield(item{Node: &tree.Node{Name: "old", Type: tree.File}}) }
	})
	folder := s.item(&liveObject{Node: tree.Node{Name: long, Type: tree.Dir}, path: "/at", parent: parent})
	require.NoError(t, d.dirs(t.Context(), "/at", old, folder.content))
	require.Equal(t, []string{"/at"}, problems)

	unread := func(context.Context, *error) iter.Seq[item] {
		return func(yield func(item) bool) {
			_ = yield(s.item(&liveObject{Node: tree.Node{Name: "new"}})) &&
				yield(s.item(&liveObject{Node: tree.Node{Name: "old"}}))
		}
	}
	require.NoError(t, d.dirs(t.Context(), "/at", old, unread))
	require.Zero(t, d.sum())
}
