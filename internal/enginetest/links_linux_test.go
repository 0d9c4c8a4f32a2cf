package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// TestManyNames: ten thousand names of one file, in many directories, cost one reading, and come back as one file.
func TestManyNames(t *testing.T) {
	const names, dirs = 10_000, 40
	src := ramDir(t)
	data := testkit.Noise(1, 5000) // comparing reads it ten thousand times
	first := filepath.Join(src, "d00/n00000")
	for i := range names {
		path := filepath.Join(src, fmt.Sprintf("d%02d/n%05d", i%dirs, i))
		if i < dirs {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		}
		if i == 0 {
			require.NoError(t, os.WriteFile(path, data, 0o644))
			continue
		}
		require.NoError(t, os.Link(first, path))
	}
	settle()
	e := newEngine(t, nil)
	for _, par := range [][3]int{{1, 1, 1}, {4, 4, 4}} {
		e.par = parallel(par[0], par[1], par[2])
		job := e.job(src)
		job.Source.Comparing.Force = true
		_, totals, err := e.backup(job)
		require.NoError(t, err)
		require.Empty(t, e.failures())
		require.EqualValues(t, len(data), totals.Bytes.Read)
	}
	e.requireRestored(src)
}

// TestLinksAcrossSources: names of one file in several sources, and one outside all of them.
func TestLinksAcrossSources(t *testing.T) {
	dir := ramDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	written(t, dir, map[string]string{"a/x": string(testkit.Noise(1, 300_000)), "b/y": "other", "c/out": "shared with outside"})
	require.NoError(t, os.Link(at("a/x"), at("b/x")))
	require.NoError(t, os.Link(at("a/x"), at("b/x2")))
	require.NoError(t, os.Link(at("c/out"), at("a/in")))
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.jobOf(at("a"), at("b")))
	require.NoError(t, err)
	require.Empty(t, e.failures())
	out := at("out")
	_, err = e.restore(dir, target(out))
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.Equal(t, inode(t, filepath.Join(out, "a/x")), inode(t, filepath.Join(out, "b/x2")))
	for _, src := range []string{"a", "b"} {
		require.Empty(t, testkit.Compare(context.Background(), at(src), filepath.Join(out, src),
			testkit.CompareOptions{Ignore: testkit.AspectHardlinks}))
	}
}

// TestLinkCountRace: links are made and removed while backups run. Each snapshot is sound, its files are whole, and a
// quiet one is exact.
func TestLinkCountRace(t *testing.T) {
	src := ramDir(t)
	want := string(testkit.Noise(1, 20_000))
	written(t, src, map[string]string{"a/file": want, "b/f": "b", "c/f": "c"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	var rounds atomic.Int64
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for i := range 30 {
				path := filepath.Join(src, string(rune('a'+(n+i)%3)), fmt.Sprintf("l%02d", (n*7+i)%40))
				if i%2 == 0 {
					_ = os.Link(filepath.Join(src, "a/file"), path)
				} else {
					_ = os.Remove(path)
				}
			}
			rounds.Add(1)
		}
	}()
	e := newEngine(t, nil)
	e.par = parallel(4, 4, 2)
	for range 15 {
		job := e.job(src)
		job.Source.Comparing.Force = true
		made, _, err := e.backup(job)
		require.NoError(t, err)
		require.Empty(t, e.failures())
		for path, o := range e.objects(made.Snapshot.Tree, src) {
			if filepath.Base(path)[0] == 'l' || path == "a/file" {
				require.True(t, o.data == want, path)
			}
		}
	}
	close(stop)
	<-stopped
	require.NotZero(t, rounds.Load())
	settle()
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	e.requireSound()
	e.requireRestored(src)
}

// TestTargetWithoutHardLinks restores several names of a file onto a file system that has no such thing: copies, told.
func TestTargetWithoutHardLinks(t *testing.T) {
	mkfs := testkit.RequireTool(t, "mkfs.vfat")
	testkit.RequireRoot(t)
	dir := ramDir(t)
	src, image, disk := filepath.Join(dir, "src"), filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	written(t, src, map[string]string{"one": "linked", "big": string(testkit.Noise(1, 3<<20))})
	require.NoError(t, os.Link(filepath.Join(src, "one"), filepath.Join(src, "two")))
	require.NoError(t, os.Link(filepath.Join(src, "big"), filepath.Join(src, "big2")))
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 32<<20))
	require.NoError(t, exec.CommandContext(t.Context(), mkfs, image).Run())
	require.NoError(t, os.Mkdir(disk, 0o755))
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop", image, disk).CombinedOutput(); err != nil {
		t.Skipf("mount vfat: %s", out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	_, err = e.restore(src, restore.Target{Path: filepath.Join(disk, "out"), Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.failures())
	requireNothingWrong(t, src, filepath.Join(disk, "out"), "on vfat")
	for _, name := range []string{"one", "two", "big", "big2"} {
		require.FileExists(t, filepath.Join(disk, "out", name))
	}
}

// TestLinkThatCannotBeMade: the names of a file lie on two file systems of the target, so that the second is a copy.
func TestLinkThatCannotBeMade(t *testing.T) {
	dir := ramDir(t)
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	big := string(testkit.Noise(1, 3<<20))
	written(t, src, map[string]string{"a/big": big, "a/one": "linked", "b/own": "x"})
	require.NoError(t, os.Link(filepath.Join(src, "a/big"), filepath.Join(src, "b/big")))
	require.NoError(t, os.Link(filepath.Join(src, "a/one"), filepath.Join(src, "b/one")))
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	mount(t, "tmpfs", "tmpfs", filepath.Join(out, "b"), 0, "size=5m")
	_, err = e.restore(src, restore.Target{Path: out, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.Empty(t, testkit.Compare(context.Background(), src, out, testkit.CompareOptions{Ignore: testkit.AspectHardlinks}))
	require.Len(t, e.ledger.Issues(), 2, "each copy is told")

	require.NoError(t, os.RemoveAll(filepath.Join(out, "a")))
	for _, name := range []string{"b/big", "b/one", "b/own"} {
		require.NoError(t, os.Remove(filepath.Join(out, name)))
	}
	fill(t, filepath.Join(out, "b")) // no room for the copy
	_, err = e.restore(src, target(out))
	require.ErrorIs(t, err, restore.ErrFull)
	require.NoFileExists(t, filepath.Join(out, "b/big"), "no half copy")
}

// TestLinksBesideSomebodysFile: where a rule leaves what is there under the first name of a file, whatever it is, the other
// names are those of the file in the snapshot, and not of what is there. If that is the very file, they become names of it.
func TestLinksBesideSomebodysFile(t *testing.T) {
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	written(t, src, map[string]string{"a": "backed up", "large": string(testkit.Noise(1, 300_000))})
	require.NoError(t, syscall.Mkfifo(filepath.Join(src, "fifo"), 0o644))
	for _, name := range []string{"a", "large", "fifo"} {
		require.NoError(t, os.Link(filepath.Join(src, name), filepath.Join(src, name+"-2")))
		require.NoError(t, os.Link(filepath.Join(src, name), filepath.Join(src, name+"-3")))
	}
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	inode := func(path string) uint64 {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	content := func(path string) string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(data)
	}
	for _, rule := range []restore.Overwrite{restore.Never, restore.IfNewer} {
		for name, make := range map[string]func(path string) error{
			"a file": func(path string) error { return os.WriteFile(path, []byte("local edit"), 0o644) },
			"a fifo": func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"a link": func(path string) error { return os.Symlink("/nowhere", path) },
		} {
			t.Run(fmt.Sprint(rule, " ", name), func(t *testing.T) {
				dst := filepath.Join(besides(t, dir), "out")
				require.NoError(t, os.Mkdir(dst, 0o755))
				for _, theirs := range []string{"a", "large", "fifo"} {
					require.NoError(t, make(filepath.Join(dst, theirs)))
				}
				before := inode(filepath.Join(dst, "a"))
				_, err := e.restore(src, restore.Target{Path: dst, Overwrite: rule})
				require.NoError(t, err)
				require.Empty(t, e.failures())
				require.Equal(t, before, inode(filepath.Join(dst, "a")), "theirs stays")
				for _, ours := range []string{"a", "large", "fifo"} {
					second, third := filepath.Join(dst, ours+"-2"), filepath.Join(dst, ours+"-3")
					require.Equal(t, inode(second), inode(third))
					require.NotEqual(t, inode(filepath.Join(dst, ours)), inode(second))
				}
				require.Equal(t, "backed up", content(filepath.Join(dst, "a-2")))
				require.Equal(t, content(filepath.Join(src, "large")), content(filepath.Join(dst, "large-3")))
			})
		}
		t.Run(fmt.Sprint(rule, " the file itself"), func(t *testing.T) {
			dst := filepath.Join(besides(t, dir), "out")
			_, err := e.restore(src, restore.Target{Path: dst})
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(dst, "a-2")))
			require.NoError(t, os.Remove(filepath.Join(dst, "large-3")))
			_, err = e.restore(src, restore.Target{Path: dst, Overwrite: rule})
			require.NoError(t, err)
			require.Equal(t, inode(filepath.Join(dst, "a")), inode(filepath.Join(dst, "a-2")))
			require.Equal(t, inode(filepath.Join(dst, "large")), inode(filepath.Join(dst, "large-3")))
		})
	}
}

// TestFileNamedLikeAnUnfinishedOne: what has the name that a restore gives to a file until it is whole is never lost without a
// word: into a directory where such files may be, it is not restored, and that is a failure.
func TestFileNamedLikeAnUnfinishedOne(t *testing.T) {
	dir := ramDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	const name = ".tidemark-f7d2f8b46dc004c5.part"
	written(t, src, map[string]string{name: "left by a killed restore", "big": string(testkit.Noise(1, 300_000)), "small": "x"})
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	written(t, dst, map[string]string{"there": "before"})
	_, err = e.restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Len(t, e.failures(), 1)
	require.Contains(t, e.failures()[0], name)
	require.NoFileExists(t, filepath.Join(dst, name))
	require.FileExists(t, filepath.Join(dst, "big"))
	require.FileExists(t, filepath.Join(dst, "small"))
}
