package change

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestFileThatWasAwayIsReadWhenItIsBack: a file that was hidden between scan and read is missing from that snapshot.
// The next snapshot contains it, although all timestamps are unchanged.
func TestFileThatWasAwayIsReadWhenItIsBack(t *testing.T) {
	dir := t.TempDir()
	testkit.RequireRoot(t)
	src, fifo := filepath.Join(dir, "src"), filepath.Join(dir, "fifo")
	behind(t, src, "gate", map[string]string{"hidden": "hidden", "seen": "seen"})
	require.NoError(t, unix.Mkfifo(fifo, 0o644))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(1, 1, 1)
	hidden := make(chan error, 1)
	gate(t, filepath.Join(src, "gate"),
		func() { hidden <- unix.Mount(fifo, filepath.Join(src, "hidden"), "", unix.MS_BIND, "") })
	made, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.NoError(t, <-hidden)
	require.NotContains(t, e.Objects(made.Snapshot.Tree, src), "hidden")
	require.NoError(t, unix.Unmount(filepath.Join(src, "hidden"), 0))

	made, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Equal(t, "hidden", e.Objects(made.Snapshot.Tree, src)["hidden"].Data)
}

// TestNamedFileThatVanishes: a file that was named and is gone when it is to be read is missed, other than one that was
// found in a directory.
func TestNamedFileThatVanishes(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	behind(t, src, "gate", map[string]string{"named": "named"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(1, 1, 1)
	removed := make(chan error, 1)
	gate(t, filepath.Join(src, "gate"), func() { removed <- os.Remove(filepath.Join(src, "named")) })
	made, _, err := e.Backup(e.JobOf(filepath.Join(src, "gate"), filepath.Join(src, "named")))
	require.NoError(t, err)
	require.NoError(t, <-removed)
	require.True(t, made.Failed)
	require.Len(t, e.Failures(), 1)
	require.Contains(t, e.Failures()[0], "named")
}

// requireDumped requires that a tar archive of dir holds files of these contents.
func requireDumped(e *kit.Engine, made *backup.Outcome, dir string, want map[string]string) {
	e.T.Helper()
	var archive bytes.Buffer
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		return browse.DumpAs(context.Background(), r.LoadBlob, made.Snapshot.Tree, dir, browse.Archive{}, &archive)
	}))
	contents := map[string]string{}
	for tr := tar.NewReader(&archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(e.T, err)
		data, err := io.ReadAll(tr)
		require.NoError(e.T, err)
		contents["/"+h.Name] = string(data)
		if h.Typeflag == tar.TypeLink {
			contents["/"+h.Name] = contents["/"+h.Linkname]
		}
	}
	for name, text := range want {
		require.Equal(e.T, text, contents[filepath.Join(dir, name)], "%s in an archive", name)
	}
}

// TestFilesThatShareAnInodeNumber: a file mounted on a file has an inode number of another file system. A file beside
// it has the same number, and both have two names. Each keeps its own content, in the snapshot and in a restore.
func TestFilesThatShareAnInodeNumber(t *testing.T) {
	dir := testkit.RamDir(t)
	src, other := filepath.Join(dir, "src"), filepath.Join(dir, "other")
	testkit.MountMemory(t, src, "1m")
	testkit.MountMemory(t, other, "1m")
	for _, at := range []string{src, other} {
		kit.Written(t, at, map[string]string{"a": "content in " + at})
		require.NoError(t, os.Link(filepath.Join(at, "a"), filepath.Join(at, "b")))
	}
	require.Equal(t, kit.Inode(t, filepath.Join(src, "a")), kit.Inode(t, filepath.Join(other, "a")))
	kit.Written(t, src, map[string]string{"a, mounted": "", "z": ""})
	for _, name := range []string{"a, mounted", "z"} {
		require.NoError(t, unix.Mount(filepath.Join(other, "b"), filepath.Join(src, name), "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(filepath.Join(src, name), unix.MNT_DETACH)) })
	}
	kit.Settle()
	want := map[string]string{
		"a": "content in " + src, "b": "content in " + src, "a, mounted": "content in " + other, "z": "content in " + other,
	}
	e := kit.NewEngine(t, nil)
	for range 2 {
		made, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		got := e.Objects(made.Snapshot.Tree, src)
		for name, text := range want {
			require.Equal(t, text, got[name].Data, name)
		}
		require.Equal(t, got["a"].Inode, got["a, mounted"].Inode, "or this test says nothing")
		requireDumped(e, made, src, want)
	}
	dst := filepath.Join(testkit.RamDir(t), "out")
	_, err := e.Restore(src, kit.Target(dst))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	for name, text := range want {
		data, err := os.ReadFile(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, text, string(data), name)
	}
	require.Equal(t, kit.Inode(t, filepath.Join(dst, "a")), kit.Inode(t, filepath.Join(dst, "b")))
	require.NotEqual(t, kit.Inode(t, filepath.Join(dst, "a")), kit.Inode(t, filepath.Join(dst, "z")))
}

// TestInodeNumberUsedAgain: a file of several names, not all of them in the source, is read, and removed while the
// backup continues; its inode number passes to a new file of two names, which is met later. It keeps its own content,
// in the snapshot and when it is restored.
func TestInodeNumberUsedAgain(t *testing.T) {
	t.Parallel()
	// So few inodes that none is kept from being used again at once.
	disk := testkit.Disk(t, 8<<20, "mkfs.ext4", "-q", "-N", "32", "-I", "256")
	src := filepath.Join(disk, "src")
	at := func(name string) string { return filepath.Join(src, name) }
	kit.Written(t, src, map[string]string{"a/old": "of the old file", "z/other": "other"})
	require.NoError(t, os.Link(at("a/old"), at("a/old, too")))
	require.NoError(t, os.Link(at("a/old"), at("../outside")))
	kit.Settle()
	old, last := kit.Inode(t, at("a/old")), kit.Inode(t, at("z"))

	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(1, 1, 1)
	var replaced atomic.Bool
	var failed error
	job := e.Job(src)
	job.Source.Skip = func(_, ino uint64) bool {
		if ino == last && !replaced.Swap(true) {
			for e.Ledger.Snapshot().Bytes.Read == 0 {
				runtime.Gosched()
			}
			failed = reuse(src, old)
		}
		return false
	}
	made, _, err := e.Backup(job)
	require.NoError(t, err)
	require.NoError(t, failed)
	require.Equal(t, old, kit.Inode(t, at("z/new")))
	got := e.Objects(made.Snapshot.Tree, src)
	require.Equal(t, "of the old file", got["a/old"].Data)
	require.Equal(t, "of the new file", got["z/new"].Data)
	require.Equal(t, "of the new file", got["z/new, too"].Data)
	requireDumped(e, made, src, map[string]string{"a/old, too": "of the old file", "z/new, too": "of the new file"})

	dst := filepath.Join(testkit.RamDir(t), "out")
	_, err = e.Restore(src, kit.Target(dst))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	for name, want := range map[string]string{"a/old, too": "of the old file", "z/new": "of the new file",
		"z/new, too": "of the new file"} {
		data, err := os.ReadFile(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, want, string(data), name)
	}
	require.Equal(t, kit.Inode(t, filepath.Join(dst, "z/new")), kit.Inode(t, filepath.Join(dst, "z/new, too")))
}

// reuse removes a/old, by all its names, and makes z/new with its inode number, of two names.
func reuse(src string, ino uint64) error {
	at := func(name string) string { return filepath.Join(src, name) }
	for _, name := range []string{"a/old", "a/old, too", "../outside"} {
		if err := os.Remove(at(name)); err != nil {
			return err
		}
	}
	for i := range 64 {
		name := at(fmt.Sprint("z/n", i))
		if err := os.WriteFile(name, []byte("of the new file"), 0o644); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		if st.Ino == ino {
			if err := os.Rename(name, at("z/new")); err != nil {
				return err
			}
			return os.Link(at("z/new"), at("z/new, too"))
		}
	}
	return fmt.Errorf("no new file has inode number %d", ino)
}

// TestAccessTimesAskedForLater: a backup that starts to record access times records those of all objects, including
// unchanged ones.
func TestAccessTimesAskedForLater(t *testing.T) {
	src := filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{"f": "f", "d/g": "g"})
	require.NoError(t, os.Symlink("f", filepath.Join(src, "link")))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	for range 2 {
		_, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
	}
	for range 2 {
		job := e.Job(src)
		job.Source.Reading.AccessTime = true
		made, _, err := e.Backup(job)
		require.NoError(t, err)
		for name, o := range e.Objects(made.Snapshot.Tree, src) {
			require.NotNil(t, o.Access, name)
		}
	}
}
