package share

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// disk mounts a file system of its own for a share, until the test is over. It is made before the server, so that it
// goes after it.
func disk(t *testing.T, size string) string {
	t.Helper()
	dir := filepath.Join(testkit.RamDir(t), "disk")
	testkit.Mount(t, "tidemark-test", "tmpfs", dir, 0, "mode=700,size="+size)
	return dir
}

// TestDiskFull: another writer fills the disk of the share in the middle of a backup. Commands that only read work on
// the full disk, the same backup fails the same way again, and with space it resumes.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	moments(t, 21, 3, fullPacks, func(t *testing.T, when moment) {
		folder := disk(t, "64m")
		m, p, first := begun(t, smbtest.Config{Folder: folder}, smb.Options{})
		src := source(t)
		done, release := m.standing(p, when, m.job(src))
		ballast := kit.Fill(t, folder)
		release()
		r := <-done
		require.False(t, r.requireEnd(t, false, "free some space", store.ErrNoSpace), "it ended before the disk was full")
		require.Empty(t, leftovers(t, folder), "a temporary file still takes the space")

		_, _, err := m.BackupCtx(t.Context(), m.job(src))
		require.ErrorIs(t, err, store.ErrNoSpace)
		m.requireListed(first)
		require.Empty(t, m.another("two", smb.Options{}).Problems(), "on the full disk")

		require.NoError(t, os.Remove(ballast))
		m.finish(src, first, r, false)
	})
}

// TestShareReadOnly: the disk of the share, or the share itself, can only be read from some moment on.
func TestShareReadOnly(t *testing.T) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		moments(t, 31, 2, fullPacks, func(t *testing.T, when moment) {
			folder := disk(t, "64m")
			m, p, first := begun(t, smbtest.Config{Folder: folder}, smb.Options{})
			src := source(t)
			done, release := m.standing(p, when, m.job(src))
			protect(t, folder, done)
			release()
			r := <-done
			require.False(t, r.requireEnd(t, false, "allow writing", store.ErrDenied))
			require.Empty(t, m.another("two", smb.Options{}).Problems(), "on a disk that is read-only")
			require.NoError(t, unix.Mount("", folder, "", unix.MS_REMOUNT, ""))
			m.finish(src, first, r, false)
		})
	})
	t.Run("share", func(t *testing.T) {
		t.Parallel()
		moments(t, 32, 2, fullPacks, func(t *testing.T, when moment) {
			m, p, first := begun(t, smbtest.Config{}, smb.Options{})
			src := source(t)
			done := m.during(p, when, m.job(src))
			m.server.Configure(smbtest.Config{Share: []string{"read only = yes"}})
			m.server.Reload()
			r := <-done
			// Samba reports different errors when it opens a file and when it writes to an open one.
			require.False(t, r.requireEnd(t, false, "", store.ErrDenied))
			require.Regexp(t, "let this user read and write|allow writing", r.err.Error())
			require.Empty(t, m.another("two", smb.Options{}).Problems(), "on a share that is read-only")
			m.server.Configure(smbtest.Config{})
			m.server.Reload()
			m.finish(src, first, r, false)
		})
	})
}

// protect makes a disk read-only between two files that are written to it: the kernel refuses it during one.
func protect(t *testing.T, folder string, done <-chan result) {
	t.Helper()
	for {
		err := unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) {
			require.NoError(t, err)
		}
		require.Empty(t, done, "the backup ended before the disk was read-only")
	}
}
