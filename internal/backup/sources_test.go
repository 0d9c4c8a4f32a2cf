package backup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// TestWarningsOfChanges: what is rewritten, replaced or newly unreadable counts from 20 files and half of all on.
func TestWarningsOfChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		had, files, rewritten, fresh, unread uint64
		want                                 string
	}{
		{files: 1000, rewritten: 500},
		{files: 1000, rewritten: 501, want: "501 of 1,000 files have other content"},
		{files: 19, rewritten: 19},
		{files: 20, rewritten: 20, want: "20 of 20 files have other content than"},
		{had: 300, files: 300, fresh: 300, want: "300 of 300 files have other content or names"},
		{had: 300, files: 301, fresh: 301, want: "300 of 300 files"}, // and a demand for money
		{had: 300, files: 299, fresh: 100, rewritten: 100, want: "200 of 300 files"},
		{had: 300, files: 100, fresh: 100},
		{had: 300, files: 1000, fresh: 700},
		{had: 300, files: 1000, fresh: 750},
		{had: 300, files: 1000, fresh: 700, rewritten: 151, want: "151 of 300 files have other content than"},
		{files: 300, fresh: 300},
		{files: 300, fresh: 301},
		{files: 100, unread: 100},
		{files: 99, unread: 101, want: "101 of 200 files could be read in the snapshot before"},
	} {
		a := amount{Count: snapshot.Count{Files: c.files}, rewritten: c.rewritten, fresh: c.fresh, unread: c.unread}
		if got := a.warning("/photos", c.had); c.want == "" {
			require.Empty(t, got)
		} else {
			require.Contains(t, got, "source /photos: "+c.want)
		}
	}
}

// TestTheSnapshotThatHasTheFilesIsNamed: also if the rules of the job changed after they were lost.
func TestTheSnapshotThatHasTheFilesIsNamed(t *testing.T) {
	held := snapshot.Count{Files: 20, Bytes: 51}
	of := func(id byte, rules string, h snapshot.Held) repo.Listed {
		return repo.Listed{ID: format.ID{id}, Snapshot: &snapshot.Snapshot{Host: "here", Sources: []string{"/a"},
			Rules: []string{rules}, Held: []snapshot.Held{h}}}
	}
	empty := snapshot.Held{State: snapshot.Empty, Expected: held, Failed: 1}
	listed := []repo.Listed{of(7, "old", snapshot.Held{Count: held}), of(8, "old", empty), of(9, "new", empty)}
	job := &Job{Label: Label{Host: "here", Rules: []string{"new"}}}
	before := job.lastWhole(listed, "/a")
	require.Equal(t, held, before.Count)
	require.Equal(t, format.ID{7}, before.id)
}
