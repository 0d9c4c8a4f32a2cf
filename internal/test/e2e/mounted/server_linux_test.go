package mounted

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestServerIsKilledBeneathAMount kills an sshd with all its processes: a read fails after the retries, and succeeds
// when the server runs again.
func TestServerIsKilledBeneathAMount(t *testing.T) {
	testkit.Slow(t)
	server := sftptest.Start(t)
	t.Setenv("PATH", server.Bin+":/usr/bin:/bin")
	target := sftp.Target{Host: server.Host, Path: server.Folder + "/repo"}
	inner, err := sftp.Create(t.Context(), target, sftp.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, inner.Close()) })
	st := retry.Wrap(inner, retry.Policy{Attempts: 4, First: 50 * time.Millisecond, Max: time.Second})
	src, content := testkit.TempDir(t), testkit.Noise(6, 40<<20)
	require.NoError(t, os.WriteFile(filepath.Join(src, "large"), content, 0o600))
	kit.Settle()
	e := kit.NewEngine(t, st)
	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	m := mountAll(t, e)
	f, err := os.Open(filepath.Join(m.latest(src), "large"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for i, at := range []int64{30 << 20, 15 << 20} {
		p := make([]byte, 1<<16)
		server.Kill()
		_, err = f.ReadAt(p, at)
		require.ErrorIs(t, err, syscall.EIO, i)
		require.Contains(t, m.reported(), "large")
		server.Run()
		_, err = f.ReadAt(p, at)
		require.NoError(t, err, i)
		require.True(t, bytes.Equal(content[at:][:len(p)], p))
	}
}
