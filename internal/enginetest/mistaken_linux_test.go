package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// TestFileThatWasAwayIsReadWhenItIsBack: a file that was hidden between scan and read is left out of that snapshot. The next
// one has it, though no time tells that anything happened.
func TestFileThatWasAwayIsReadWhenItIsBack(t *testing.T) {
	dir := t.TempDir()
	testkit.RequireRoot(t)
	src, fifo := filepath.Join(dir, "src"), filepath.Join(dir, "fifo")
	behind(t, src, "gate", map[string]string{"hidden": "hidden", "seen": "seen"})
	require.NoError(t, unix.Mkfifo(fifo, 0o644))
	settle()
	e := newEngine(t, nil)
	e.par = parallel(1, 1, 1)
	hidden := make(chan error, 1)
	gate(t, filepath.Join(src, "gate"), func() { hidden <- unix.Mount(fifo, filepath.Join(src, "hidden"), "", unix.MS_BIND, "") })
	made, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	require.NoError(t, <-hidden)
	require.NotContains(t, e.objects(made.Snapshot.Tree, src), "hidden")
	require.NoError(t, unix.Unmount(filepath.Join(src, "hidden"), 0))

	made, _, err = e.backup(e.job(src))
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.Equal(t, "hidden", e.objects(made.Snapshot.Tree, src)["hidden"].data)
}

// TestNamedFileThatVanishes: a file that was named and is gone when it is to be read is missed, other than one that was
// found in a directory.
func TestNamedFileThatVanishes(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	behind(t, src, "gate", map[string]string{"named": "named"})
	settle()
	e := newEngine(t, nil)
	e.par = parallel(1, 1, 1)
	removed := make(chan error, 1)
	gate(t, filepath.Join(src, "gate"), func() { removed <- os.Remove(filepath.Join(src, "named")) })
	made, _, err := e.backup(e.jobOf(filepath.Join(src, "gate"), filepath.Join(src, "named")))
	require.NoError(t, err)
	require.NoError(t, <-removed)
	require.True(t, made.Failed)
	require.Len(t, e.failures(), 1)
	require.Contains(t, e.failures()[0], "named")
}

// requireDumped demands that a tar archive of dir holds files of these contents.
func (e *engine) requireDumped(made *backup.Outcome, dir string, want map[string]string) {
	e.t.Helper()
	var archive bytes.Buffer
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		return browse.Dump(context.Background(), r, made.Snapshot.Tree, dir, &archive)
	}))
	contents := map[string]string{}
	for tr := tar.NewReader(&archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(e.t, err)
		data, err := io.ReadAll(tr)
		require.NoError(e.t, err)
		contents["/"+h.Name] = string(data)
		if h.Typeflag == tar.TypeLink {
			contents["/"+h.Name] = contents["/"+h.Linkname]
		}
	}
	for name, text := range want {
		require.Equal(e.t, text, contents[filepath.Join(dir, name)], "%s in an archive", name)
	}
}

// TestFilesThatShareAnInodeNumber: what is mounted on a file has the inode number of another file system. If that has two
// names, and so has a file beside it with the same number, each keeps its own content, in the snapshot and when it is restored.
func TestFilesThatShareAnInodeNumber(t *testing.T) {
	dir := ramDir(t)
	src, other := filepath.Join(dir, "src"), filepath.Join(dir, "other")
	mount(t, "tmpfs", "tmpfs", src, 0, "size=1m")
	mount(t, "tmpfs", "tmpfs", other, 0, "size=1m")
	for _, at := range []string{src, other} {
		written(t, at, map[string]string{"a": "content in " + at})
		require.NoError(t, os.Link(filepath.Join(at, "a"), filepath.Join(at, "b")))
	}
	require.Equal(t, inode(t, filepath.Join(src, "a")), inode(t, filepath.Join(other, "a")))
	written(t, src, map[string]string{"a, mounted": "", "z": ""})
	for _, name := range []string{"a, mounted", "z"} {
		require.NoError(t, unix.Mount(filepath.Join(other, "b"), filepath.Join(src, name), "", unix.MS_BIND, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(filepath.Join(src, name), unix.MNT_DETACH)) })
	}
	settle()
	want := map[string]string{
		"a": "content in " + src, "b": "content in " + src, "a, mounted": "content in " + other, "z": "content in " + other,
	}
	e := newEngine(t, nil)
	for range 2 {
		made, _, err := e.backup(e.job(src))
		require.NoError(t, err)
		require.Empty(t, e.failures())
		got := e.objects(made.Snapshot.Tree, src)
		for name, text := range want {
			require.Equal(t, text, got[name].data, name)
		}
		require.Equal(t, got["a"].Inode, got["a, mounted"].Inode, "or this test says nothing")
		e.requireDumped(made, src, want)
	}
	dst := filepath.Join(ramDir(t), "out")
	_, err := e.restore(src, target(dst))
	require.NoError(t, err)
	require.Empty(t, e.failures())
	for name, text := range want {
		data, err := os.ReadFile(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, text, string(data), name)
	}
	require.Equal(t, inode(t, filepath.Join(dst, "a")), inode(t, filepath.Join(dst, "b")))
	require.NotEqual(t, inode(t, filepath.Join(dst, "a")), inode(t, filepath.Join(dst, "z")))
}

// TestInodeNumberUsedAgain: a file of several names, not all of them in the source, is read, and removed while the backup goes
// on; its inode number passes to a new file of two names, which is met later. It keeps its own content, in the snapshot and
// when it is restored.
func TestInodeNumberUsedAgain(t *testing.T) {
	mkfs := testkit.RequireTool(t, "mkfs.ext4")
	dir := ramDir(t)
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	src := filepath.Join(disk, "src")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 8<<20))
	// So few inodes that none is kept from being used again at once.
	require.NoError(t, exec.CommandContext(t.Context(), mkfs, "-q", "-N", "32", "-I", "256", image).Run())
	require.NoError(t, os.Mkdir(disk, 0o755))
	testkit.RequireRoot(t)
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop", image, disk).CombinedOutput(); err != nil {
		t.Skipf("mount ext4: %s", out)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	at := func(name string) string { return filepath.Join(src, name) }
	written(t, src, map[string]string{"a/old": "of the old file", "z/other": "other"})
	require.NoError(t, os.Link(at("a/old"), at("a/old, too")))
	require.NoError(t, os.Link(at("a/old"), at("../outside")))
	settle()
	old, last := inode(t, at("a/old")), inode(t, at("z"))

	e := newEngine(t, nil)
	e.par = parallel(1, 1, 1)
	var replaced atomic.Bool
	var failed error
	job := e.job(src)
	job.Source.Skip = func(_, ino uint64) bool {
		if ino == last && !replaced.Swap(true) {
			for e.ledger.Snapshot().Bytes.Read == 0 {
				runtime.Gosched()
			}
			failed = reuse(src, old)
		}
		return false
	}
	made, _, err := e.backup(job)
	require.NoError(t, err)
	require.NoError(t, failed)
	require.Equal(t, old, inode(t, at("z/new")))
	got := e.objects(made.Snapshot.Tree, src)
	require.Equal(t, "of the old file", got["a/old"].data)
	require.Equal(t, "of the new file", got["z/new"].data)
	require.Equal(t, "of the new file", got["z/new, too"].data)
	e.requireDumped(made, src, map[string]string{"a/old, too": "of the old file", "z/new, too": "of the new file"})

	dst := filepath.Join(ramDir(t), "out")
	_, err = e.restore(src, target(dst))
	require.NoError(t, err)
	require.Empty(t, e.failures())
	for name, want := range map[string]string{"a/old, too": "of the old file", "z/new": "of the new file", "z/new, too": "of the new file"} {
		data, err := os.ReadFile(filepath.Join(dst, name))
		require.NoError(t, err)
		require.Equal(t, want, string(data), name)
	}
	require.Equal(t, inode(t, filepath.Join(dst, "z/new")), inode(t, filepath.Join(dst, "z/new, too")))
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

// TestAccessTimesAskedForLater: who asks for access times gets those of all objects, not only of such that have changed since.
func TestAccessTimesAskedForLater(t *testing.T) {
	src := filepath.Join(ramDir(t), "src")
	written(t, src, map[string]string{"f": "f", "d/g": "g"})
	require.NoError(t, os.Symlink("f", filepath.Join(src, "link")))
	settle()
	e := newEngine(t, nil)
	for range 2 {
		_, _, err := e.backup(e.job(src))
		require.NoError(t, err)
	}
	for range 2 {
		job := e.job(src)
		job.Source.Reading.AccessTime = true
		made, _, err := e.backup(job)
		require.NoError(t, err)
		for name, o := range e.objects(made.Snapshot.Tree, src) {
			require.NotNil(t, o.Access, name)
		}
	}
}
