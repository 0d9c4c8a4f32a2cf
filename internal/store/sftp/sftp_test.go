package sftp_test

import (
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// direct opens a store on an SFTP server that is a child of the test.
func direct(t *testing.T, folder string) *sftp.Store {
	t.Helper()
	st, err := sftp.Create(t.Context(), sftp.Target{Host: "here", Path: folder},
		sftp.Options{}.Directly(sftptest.Program(t)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// overSSH opens a store on a server, whose ssh is to be in PATH.
func overSSH(t *testing.T, folder string) *sftp.Store {
	t.Helper()
	st, err := sftp.Create(t.Context(), sftp.Target{Host: "tidemark-test-server", Path: folder}, sftp.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestContractWithoutSSH(t *testing.T) {
	testkit.Slow(t)
	storetest.Run(t, func(t *testing.T) store.Store { return direct(t, filepath.Join(t.TempDir(), "a/b")) })
}

func TestContractOverSSH(t *testing.T) {
	testkit.Slow(t)
	server := sftptest.Start(t)
	t.Setenv("PATH", server.Bin+":/usr/bin:/bin")
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		return overSSH(t, filepath.Join(server.Folder, strconv.FormatInt(n.Add(1), 10)))
	})
}

// TestOneOfTwoProcessesGetsAName has each process run its own SFTP server on the same folder.
func TestOneOfTwoProcessesGetsAName(t *testing.T) {
	storetest.Race(t, func() string { return t.TempDir() },
		func(t *testing.T, place string) store.Store { return direct(t, place) })
}
