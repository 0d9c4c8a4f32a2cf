package change

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/sourcesnap"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// frozen has a job read its sources from snapshots, as the command line does.
func frozen(t *testing.T, job *backup.Job) *sourcesnap.Snapshots {
	t.Helper()
	maker, err := sourcesnap.New(sourcesnap.Btrfs)
	require.NoError(t, err)
	s, err := sourcesnap.Take(t.Context(), maker, job.Label.Sources, false)
	require.NoError(t, err)
	require.True(t, s.Any())
	job.Source.Frozen = backup.NewFrozen(s.Since)
	job.Source.Root.ReadFrom(s.Place)
	return s
}

// requireNoSnapshot fails if a snapshot of the file system was left.
func requireNoSnapshot(t *testing.T, at string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(at, ".tidemark-snapshot"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A file that moves from a folder that is not listed yet to one that was is lost to a backup of the live file system,
// and to no backup of a snapshot.
func TestFileThatMovesDuringABackupIsInTheSnapshot(t *testing.T) {
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	for _, freeze := range []bool{false, true} {
		src := filepath.Join(at, map[bool]string{false: "live", true: "frozen"}[freeze])
		testkit.Write(t, src, testkit.Dir{
			"a": testkit.Dir{"one": testkit.File{Data: []byte("1")}}, "b": testkit.Dir{"two": testkit.File{Data: []byte("2")}},
		})
		e := kit.NewEngine(t, mem.New())
		e.Parallel = kit.Parallel(1, 1, 1)
		job := e.JobOf(filepath.Join(src, "a"), filepath.Join(src, "b"))
		end := func() {}
		if freeze {
			s := frozen(t, &job)
			end = func() { require.NoError(t, s.Close(t.Context())) }
		}
		var entered []string
		job.Source.Gate = func(_ *localfs.Dir, path string) *iopolicy.Pass {
			if filepath.Dir(path) != src || len(entered) == 2 || len(entered) == 1 && entered[0] == path {
				return nil
			}
			if entered = append(entered, path); len(entered) == 2 { // the first is listed, the second is about to be
				name := map[string]string{"a": "one", "b": "two"}[filepath.Base(path)]
				require.NoError(t, os.Rename(filepath.Join(path, name), filepath.Join(entered[0], name)))
			}
			return nil
		}
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		end()
		require.Len(t, entered, 2)
		if !freeze {
			require.EqualValues(t, 1, totals.Objects.Files, "the moved file is lost: otherwise this test shows nothing")
			continue
		}
		require.EqualValues(t, 2, totals.Objects.Files)
		dst := filepath.Join(t.TempDir(), "out")
		_, err = e.Restore(src, kit.Target(dst))
		require.NoError(t, err)
		for name, content := range map[string]string{"a/one": "1", "b/two": "2"} {
			got, err := os.ReadFile(filepath.Join(dst, name))
			require.NoError(t, err)
			require.Equal(t, content, string(got))
		}
	}
	requireNoSnapshot(t, at)
}

// Each snapshot has another device number, and the same inode numbers and times.
func TestBackupsOfSnapshotsAreIncremental(t *testing.T) {
	t.Parallel()
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	testkit.Write(t, filepath.Join(at, "src"), testkit.Random(7, 60, true))
	kit.Settle()
	e := kit.NewEngine(t, mem.New())
	for i := range 3 {
		job := e.Job(at)
		s := frozen(t, &job)
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		require.NoError(t, s.Close(t.Context()))
		require.Zero(t, totals.Objects.Failed)
		require.NotZero(t, totals.Objects.Files)
		if i == 0 {
			kit.Settle()
			continue
		}
		require.Zero(t, totals.Objects.BackedUp)
		require.Zero(t, totals.Bytes.Read)
	}
	// A change is seen.
	require.NoError(t, os.WriteFile(filepath.Join(at, "src", "fresh"), []byte("new"), 0o600))
	job := e.Job(at)
	s := frozen(t, &job)
	_, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	require.EqualValues(t, 3, totals.Bytes.Read)
	requireNoSnapshot(t, at)
}

// A snapshot has an empty folder in place of a subvolume, and of what is mounted. Both are read live instead.
func TestSubvolumesAndMountsBelowASourceAreReadLive(t *testing.T) {
	t.Parallel()
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	src := filepath.Join(at, "src")
	testkit.Write(t, src, testkit.Dir{"a": testkit.Dir{"mount": testkit.Dir{}}, "f": testkit.File{Data: []byte("f")}})
	out, err := exec.Command("btrfs", "subvolume", "create", filepath.Join(src, "nested")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(src, "nested", "file"), []byte("x"), 0o600))
	mount := filepath.Join(src, "a", "mount")
	require.NoError(t, unix.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mount, unix.MNT_DETACH)) })
	testkit.Write(t, filepath.Join(mount, "deep"), testkit.Dir{"file": testkit.File{Data: []byte("y")}})

	e := kit.NewEngine(t, mem.New())
	for range 2 { // the second time with what the first remembers
		job := e.Job(src)
		s := frozen(t, &job)
		job.Source.Frozen.Mount(mount)
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		require.NoError(t, s.Close(t.Context()))
		require.Empty(t, e.Failures())
		require.EqualValues(t, 3, totals.Objects.Files)
	}
	e.RequireRestored(src)

	// Not with one file system, as without a snapshot.
	b := rules.NewBuilder()
	b.Flag(rules.OneSystem, "test")
	for _, freeze := range []bool{false, true} {
		job := e.Job(src)
		job.Source.Rules = b.Compile()
		end := func() {}
		if freeze {
			s := frozen(t, &job)
			job.Source.Rules = b.Compile()
			job.Source.Frozen.Mount(mount)
			end = func() { require.NoError(t, s.Close(t.Context())) }
		}
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		end()
		require.EqualValues(t, 1, totals.Objects.Files, freeze)
		require.Empty(t, e.Failures())
	}

	// The subvolume as a source of its own.
	job := e.Job(filepath.Join(src, "nested"))
	s := frozen(t, &job)
	_, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	require.EqualValues(t, 1, totals.Objects.Files)
}

// A backup that reads the live file system has no snapshot of another one in it.
func TestSnapshotsOfOtherBackupsAreNotBackedUp(t *testing.T) {
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(at, "file"), []byte("x"), 0o600))
	e := kit.NewEngine(t, mem.New())
	other := e.Job(at)
	s := frozen(t, &other)
	_, totals, err := e.Backup(e.Job(at))
	require.NoError(t, err)
	require.EqualValues(t, 1, totals.Objects.Files)
	require.EqualValues(t, 1, totals.Objects.Excluded)
	require.NoError(t, s.Close(t.Context()))
}

// Where a folder of the same subvolume is mounted over another one, the snapshot has the latter at the path of the
// source.
func TestFolderMountedOverTheSourceIsNotReadFromTheSnapshot(t *testing.T) {
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	testkit.Write(t, at, testkit.Dir{
		"a": testkit.Dir{"file": testkit.File{Data: []byte("x")},
			"sub": testkit.Dir{"deep": testkit.File{Data: []byte("y")}}},
		"b": testkit.Dir{"m": testkit.Dir{"sub": testkit.Dir{}}},
	})
	mount := filepath.Join(at, "b", "m")
	require.NoError(t, unix.Mount(filepath.Join(at, "a"), mount, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mount, unix.MNT_DETACH)) })
	for _, source := range []string{mount, filepath.Join(mount, "sub"), filepath.Join(mount, "file")} {
		for _, optional := range []bool{false, true} {
			maker, err := sourcesnap.New(sourcesnap.Btrfs)
			require.NoError(t, err)
			s, err := sourcesnap.Take(t.Context(), maker, []string{source}, optional)
			if !optional {
				require.ErrorIs(t, err, sourcesnap.ErrFileSystem, source)
				continue
			}
			require.NoError(t, err)
			require.False(t, s.Any(), "it is read live")
			require.Len(t, s.Notes, 1)
			require.NoError(t, s.Close(t.Context()))
		}
	}
	requireNoSnapshot(t, at)
}

// Who owns a subvolume cannot lead root to other files by a link or a folder of his own.
func TestForeignFolderIsNotUsedForSnapshots(t *testing.T) {
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	elsewhere, folder := filepath.Join(at, "elsewhere"), filepath.Join(at, ".tidemark-snapshot")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	take := func() error {
		maker, err := sourcesnap.New(sourcesnap.Btrfs)
		require.NoError(t, err)
		_, err = sourcesnap.Take(t.Context(), maker, []string{at}, false)
		return err
	}
	require.NoError(t, os.Symlink("elsewhere", folder))
	require.ErrorIs(t, take(), unix.ENOTDIR)
	require.NoError(t, os.Remove(folder))
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.Chown(folder, 1, 1))
	require.ErrorContains(t, take(), "move it away")
	require.NoError(t, os.Chown(folder, 0, 0))
	require.NoError(t, os.Chmod(folder, 0o770))
	require.ErrorContains(t, take(), "move it away")
	left, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The snapshot of a backup that was killed is removed by the next one; that of one that runs is not.
func TestSnapshotOfAKilledBackupIsRemoved(t *testing.T) {
	const role = "freeze "
	if at, ok := strings.CutPrefix(kit.Role(), role); ok {
		maker, err := sourcesnap.New(sourcesnap.Btrfs)
		require.NoError(t, err)
		_, err = sourcesnap.Take(t.Context(), maker, []string{at}, false)
		require.NoError(t, err)
		kit.Hold()
	}
	at := testkit.Disk(t, 128<<20, "mkfs.btrfs", "-q")
	require.True(t, kit.Killed(t, role+at, 0))
	left, err := os.ReadDir(filepath.Join(at, ".tidemark-snapshot"))
	require.NoError(t, err)
	require.Len(t, left, 1, "it was killed with a snapshot")

	e := kit.NewEngine(t, mem.New())
	job, other := e.Job(at), e.Job(at)
	s := frozen(t, &job)
	running := s.Place(at)
	require.NoDirExists(t, filepath.Join(at, ".tidemark-snapshot", left[0].Name()))
	s2 := frozen(t, &other)
	require.DirExists(t, running, "another backup keeps its snapshot")
	require.NotEqual(t, running, s2.Place(at))
	require.NoError(t, s2.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	requireNoSnapshot(t, at)

	// What is no snapshot of a backup is not touched.
	kept := filepath.Join(at, ".tidemark-snapshot", "mine", "folder")
	require.NoError(t, os.MkdirAll(kept, 0o700))
	maker, err := sourcesnap.New(sourcesnap.Btrfs)
	require.NoError(t, err)
	_, err = sourcesnap.Take(t.Context(), maker, []string{at}, false)
	require.ErrorContains(t, err, "mine")
	require.DirExists(t, kept)
}
