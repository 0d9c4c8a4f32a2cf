package reread

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A walk that ends before it visits an object leaves the cursor where it was. An empty cursor would mean that the walk
// reached the end of the tree.
func TestCursorOutlastsAWalkWithoutObjects(t *testing.T) {
	stop := errors.New("interrupted")
	found, err := Run(t.Context(), Config{
		Load: func(context.Context, format.ID) ([]byte, error) { return nil, stop },
		Tree: format.ID{1},
		Root: &scan.SourceTree{Path: t.TempDir()},
		Part: Part{After: "a/b", Budget: 1, Until: time.Now().Add(time.Hour)},
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, "a/b", found.Reached)
}

// Both ends belong to a window, and either time of a file counts.
func TestWindow(t *testing.T) {
	w := Window{From: time.Unix(100, 5), Until: time.Unix(200, 5)}
	out := tree.Time{Sec: 300}
	for _, c := range []struct {
		at   tree.Time
		want bool
	}{
		{tree.Time{Sec: 100, Nsec: 4}, false}, {tree.Time{Sec: 100, Nsec: 5}, true}, {tree.Time{Sec: 150}, true},
		{tree.Time{Sec: 200, Nsec: 5}, true}, {tree.Time{Sec: 200, Nsec: 6}, false},
	} {
		require.Equal(t, c.want, w.holds(&tree.Node{ModTime: c.at, Changed: out}), "modified at %v", c.at)
		require.Equal(t, c.want, w.holds(&tree.Node{ModTime: out, Changed: c.at}), "changed at %v", c.at)
	}
}
