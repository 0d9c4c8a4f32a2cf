package sftp_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

// TestAFullDiskIsNamed: no part of a file stays, and what was there before is intact.
func TestAFullDiskIsNamed(t *testing.T) {
	s := sftptest.Start(t)
	t.Setenv("PATH", s.Bin+":/usr/bin:/bin")
	require.NoError(t, syscall.Mount("tmpfs", s.Folder, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(s.Folder, 0)) })
	st := overSSH(t, s.Folder)
	name := func(i int) store.Name { return store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x01", i)} }
	var err error
	n := 0
	for ; n < 10 && err == nil; n++ {
		err = st.Put(t.Context(), name(n), storetest.Pattern(900_000, uint64(n)))
	}
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.NotErrorIs(t, err, store.ErrTemporary)
	listed := 0
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		require.EqualValues(t, 900_000, info.Size)
		listed++
	}
	require.Equal(t, n-1, listed)
	require.NoError(t, filepath.WalkDir(s.Folder, func(path string, _ fs.DirEntry, err error) error {
		require.NotContains(t, filepath.Base(path), "tmp-tidemark-")
		return err
	}))
	require.NoError(t, st.Delete(t.Context(), name(0)))
	require.NoError(t, st.Put(t.Context(), name(0), storetest.Pattern(800_000, 9)))
	back := make([]byte, 800_000)
	require.NoError(t, st.Get(t.Context(), name(0), 0, back))
	require.Equal(t, storetest.Pattern(800_000, 9), back)
}
