package backup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// TestWarningsOfChanges: what is rewritten or newly unreadable counts from a hundred files and half of all on.
func TestWarningsOfChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files, rewritten, unread uint64
		want                     string
	}{
		{files: 1000, rewritten: 500},
		{files: 1000, rewritten: 501, want: "501 of 1,000 files have other content"},
		{files: 99, rewritten: 99},
		{files: 100, rewritten: 100, want: "100 of 100 files have other content"},
		{files: 100, unread: 100},
		{files: 99, unread: 101, want: "101 of 200 files could be read in the snapshot before"},
	} {
		a := amount{Count: snapshot.Count{Files: c.files}, rewritten: c.rewritten, unread: c.unread}
		if got := a.warning("/photos"); c.want == "" {
			require.Empty(t, got)
		} else {
			require.Contains(t, got, "source /photos: "+c.want)
		}
	}
}
