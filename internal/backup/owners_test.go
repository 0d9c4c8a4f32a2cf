package backup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
)

func TestEveryOwnerIsNamedOnce(t *testing.T) {
	const nobody = 4_000_000_001 // has no name anywhere
	var entries []scan.Entry
	for _, id := range []uint32{0, 0, nobody, 0} {
		var e scan.Entry
		e.Set(&localfs.Stat{UID: id, GID: id})
		entries = append(entries, e)
	}
	var s owners
	users, groups := s.names()
	require.Empty(t, users)
	require.Empty(t, groups)
	s.addEntries(entries[:1])
	s.addEntries(entries)
	s.addEntries(nil)
	require.Equal(t, map[uint32]bool{0: true, nobody: true}, s.users)
	require.Equal(t, map[uint32]bool{0: true, nobody: true}, s.groups)
	users, groups = s.names()
	require.Equal(t, map[uint32]string{0: "root"}, users)
	require.Len(t, groups, 1, "root, or wheel on macOS")
	s.add(nobody, 0)
	require.Len(t, s.users, 2)
}
