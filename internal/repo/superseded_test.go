package repo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A whole snapshot with fewer files than a partial one may lack what only that one has.
func TestWholeSnapshotWithFewerFilesSupersedesNothing(t *testing.T) {
	of := func(start int64, files uint64) *snapshot.Snapshot {
		held := snapshot.Held{}
		held.Files = files
		return &snapshot.Snapshot{Host: "a", Start: tree.Time{Sec: start}, End: tree.Time{Sec: start + 1},
			Sources: []string{"/s"}, Held: []snapshot.Held{held}}
	}
	partial := of(1, 10)
	partial.Partial = true
	for files, want := range map[uint64]bool{9: false, 10: true, 11: true} {
		whole := []repo.Listed{{Snapshot: of(5, files)}}
		require.Equal(t, want, repo.Superseded(partial, whole), files)
		whole[0].Snapshot.Held[0].Accepted = 1
		require.True(t, repo.Superseded(partial, whole), "accepted")
	}
}
