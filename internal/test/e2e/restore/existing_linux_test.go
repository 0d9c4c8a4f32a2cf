package restore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestDeleteLeavesOtherFileSystems: what the backup did not enter is not in the snapshot, and is there all the same.
func TestDeleteLeavesOtherFileSystems(t *testing.T) {
	testkit.RequireRoot(t)
	testkit.NoLeaks(t)
	src := filepath.Join(testkit.TempDir(t), "src")
	write(t, src, "a", "later/under")
	testkit.MountMemory(t, filepath.Join(src, "hollow"), "1m")
	testkit.MountMemory(t, filepath.Join(src, "entered"), "1m")
	write(t, src, "hollow/precious", "entered/known")
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	b := rules.NewBuilder()
	b.Flag(rules.OneSystem, "")
	job.Source.Rules = b.Compile()
	_, _, err := e.Backup(job)
	require.NoError(t, err)

	testkit.MountMemory(t, filepath.Join(src, "later"), "1m")
	testkit.MountMemory(t, filepath.Join(src, "extra/deep"), "1m")
	write(t, src, "later/precious", "extra/deep/precious", "gone")
	totals, err := e.Restore(src, restore.Target{Path: src, Delete: true})
	require.NoError(t, err)
	require.Equal(t, uint64(1), totals.Failures, "extra, which could not be removed")
	for _, name := range []string{"hollow/precious", "later/precious", "later/under", "extra/deep/precious"} {
		require.FileExists(t, filepath.Join(src, name))
	}
	require.NoFileExists(t, filepath.Join(src, "gone"))

	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	write(t, src, "entered/new")
	_, err = e.Restore(src, restore.Target{Path: src, Delete: true})
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(src, "entered/known"))
	require.NoFileExists(t, filepath.Join(src, "entered/new"), "the snapshot covers this file system")
}

// TestDeleteLeavesWhatCouldNotBeListed: a directory that the backup could not read is not empty.
func TestDeleteLeavesWhatCouldNotBeListed(t *testing.T) {
	testkit.NoLeaks(t)
	src := filepath.Join(testkit.TempDir(t), "src")
	write(t, src, "a", "closed/precious")
	e := kit.NewEngine(t, nil)
	e.Open.Cache.Temporary = true
	closed := filepath.Join(src, "closed")
	require.NoError(t, os.Chmod(closed, 0))
	if os.Geteuid() == 0 { // root may read everything
		for at := src; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
			require.NoError(t, os.Chmod(at, 0o755))
		}
		scratch := filepath.Join(filepath.Dir(src), "scratch") // the user may lack write permission for temporary files
		require.NoError(t, os.Mkdir(scratch, 0o700))
		require.NoError(t, os.Chown(scratch, 65534, -1))
		t.Setenv("TMPDIR", scratch)
		require.NoError(t, syscall.Setresuid(-1, 65534, -1))
		defer func() { require.NoError(t, syscall.Setresuid(-1, 0, -1)) }()
	}
	out, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.True(t, out.Failed)
	if os.Getuid() == 0 {
		require.NoError(t, syscall.Setresuid(-1, 0, -1))
	}
	write(t, src, "gone")
	totals, err := e.Restore(src, restore.Target{Path: src, Delete: true})
	require.NoError(t, err)
	require.Equal(t, uint64(1), totals.Failures, "the directory that is not complete")
	require.NoError(t, os.Chmod(closed, 0o700))
	require.FileExists(t, filepath.Join(src, "closed/precious"))
	require.NoFileExists(t, filepath.Join(src, "gone"))
}

// TestRestoreIntoImmutableDirectory: in its place, an immutable directory does not prevent the restore of its contents.
func TestRestoreIntoImmutableDirectory(t *testing.T) {
	testkit.RequireRoot(t)
	testkit.NoLeaks(t)
	src := filepath.Join(testkit.TempDir(t), "src")
	write(t, src, "fixed/changed", "fixed/lost")
	fixed := filepath.Join(src, "fixed")
	if err := setFlags(fixed, unix.STATX_ATTR_IMMUTABLE); err != nil {
		t.Skipf("chattr +i: %v", err)
	}
	t.Cleanup(func() { _ = setFlags(fixed, 0) })
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.NoError(t, setFlags(fixed, 0))
	require.NoError(t, os.Remove(filepath.Join(fixed, "lost")))
	require.NoError(t, os.WriteFile(filepath.Join(fixed, "changed"), []byte("other"), 0o600))
	write(t, src, "fixed/gone")
	require.NoError(t, setFlags(fixed, unix.STATX_ATTR_IMMUTABLE))

	totals, err := e.Restore(src, restore.Target{Path: src, Delete: true})
	require.NoError(t, err)
	require.Zero(t, totals.Failures)
	got, err := os.ReadFile(filepath.Join(fixed, "changed"))
	require.NoError(t, err)
	require.Equal(t, "fixed/changed", string(got))
	require.FileExists(t, filepath.Join(fixed, "lost"))
	require.NoFileExists(t, filepath.Join(fixed, "gone"))
	require.ErrorIs(t, os.WriteFile(filepath.Join(fixed, "new"), nil, 0o600), unix.EPERM, "immutable again")
}

func setFlags(path string, flags uint32) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}
