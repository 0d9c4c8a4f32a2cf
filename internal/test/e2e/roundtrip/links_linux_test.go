package roundtrip

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestManyNames: ten thousand names of one file, in many directories, cost one reading, and come back as one file.
func TestManyNames(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const names, dirs = 10_000, 40
	src := testkit.RamDir(t)
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
	kit.Settle()
	e := kit.NewEngine(t, nil)
	for _, par := range [][3]int{{1, 1, 1}, {4, 4, 4}} {
		e.Parallel = kit.Parallel(par[0], par[1], par[2])
		job := e.Job(src)
		job.Source.Comparing.Force = true
		_, totals, err := e.Backup(job)
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		require.EqualValues(t, len(data), totals.Bytes.Read)
	}
	e.RequireRestored(src)
}

// TestLinksAcrossSources: names of one file in several sources, and one outside all of them.
func TestLinksAcrossSources(t *testing.T) {
	dir := testkit.RamDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	kit.Written(t, dir, map[string]string{"a/x": string(testkit.Noise(1, 300_000)), "b/y": "other",
		"c/out": "shared with outside"})
	require.NoError(t, os.Link(at("a/x"), at("b/x")))
	require.NoError(t, os.Link(at("a/x"), at("b/x2")))
	require.NoError(t, os.Link(at("c/out"), at("a/in")))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.JobOf(at("a"), at("b")))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	out := at("out")
	_, err = e.Restore(dir, kit.Target(out))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Equal(t, kit.Inode(t, filepath.Join(out, "a/x")), kit.Inode(t, filepath.Join(out, "b/x2")))
	for _, src := range []string{"a", "b"} {
		require.Empty(t, testkit.Compare(context.Background(), at(src), filepath.Join(out, src),
			testkit.CompareOptions{Ignore: testkit.AspectHardlinks}))
	}
}

// TestLinkCountRace: links are made and removed while backups run. Each snapshot is sound, its files are whole, and a
// quiet one is exact.
func TestLinkCountRace(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := testkit.RamDir(t)
	want := string(testkit.Noise(1, 20_000))
	kit.Written(t, src, map[string]string{"a/file": want, "b/f": "b", "c/f": "c"})
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
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(4, 4, 2)
	for range testkit.Rounds(3, 5, 15) {
		job := e.Job(src)
		job.Source.Comparing.Force = true
		made, _, err := e.Backup(job)
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		for path, o := range e.Objects(made.Snapshot.Tree, src) {
			if filepath.Base(path)[0] == 'l' || path == "a/file" {
				require.True(t, o.Data == want, path)
			}
		}
	}
	close(stop)
	<-stopped
	require.NotZero(t, rounds.Load())
	kit.Settle()
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	e.RequireSound()
	e.RequireRestored(src)
}

// TestTargetWithoutHardLinks restores a hard-linked file onto a file system without hard links: as reported copies.
func TestTargetWithoutHardLinks(t *testing.T) {
	mkfs := testkit.RequireTool(t, "mkfs.vfat")
	testkit.RequireRoot(t)
	dir := testkit.RamDir(t)
	src, image, disk := filepath.Join(dir, "src"), filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	kit.Written(t, src, map[string]string{"one": "linked", "big": string(testkit.Noise(1, 3<<20))})
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
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, err = e.Restore(src, restore.Target{Path: filepath.Join(disk, "out"), Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	kit.RequireNothingWrong(t, src, filepath.Join(disk, "out"), "on vfat")
	for _, name := range []string{"one", "two", "big", "big2"} {
		require.FileExists(t, filepath.Join(disk, "out", name))
	}
}

// TestLinkThatCannotBeMade: the names of a file lie on two file systems of the target, so that the second is a copy.
func TestLinkThatCannotBeMade(t *testing.T) {
	t.Parallel()
	dir := testkit.RamDir(t)
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	big := string(testkit.Noise(1, 3<<20))
	kit.Written(t, src, map[string]string{"a/big": big, "a/one": "linked", "b/own": "x"})
	require.NoError(t, os.Link(filepath.Join(src, "a/big"), filepath.Join(src, "b/big")))
	require.NoError(t, os.Link(filepath.Join(src, "a/one"), filepath.Join(src, "b/one")))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Mount(t, "tmpfs", "tmpfs", filepath.Join(out, "b"), 0, "size=5m")
	_, err = e.Restore(src, restore.Target{Path: out, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Empty(t, testkit.Compare(context.Background(), src, out,
		testkit.CompareOptions{Ignore: testkit.AspectHardlinks}))
	require.Len(t, e.Ledger.Issues(), 2, "each copy is reported")

	require.NoError(t, os.RemoveAll(filepath.Join(out, "a")))
	for _, name := range []string{"b/big", "b/one", "b/own"} {
		require.NoError(t, os.Remove(filepath.Join(out, name)))
	}
	kit.Fill(t, filepath.Join(out, "b")) // no space for the copy
	_, err = e.Restore(src, kit.Target(out))
	require.ErrorIs(t, err, restore.ErrFull)
	require.NoFileExists(t, filepath.Join(out, "b/big"), "no half copy")
}

// TestLinksBesideAForeignFile: a rule keeps the existing object under the first name of a file. The other names then
// belong to the file in the snapshot, not to that object. If the object is that very file, they become names of it.
func TestLinksBesideAForeignFile(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	kit.Written(t, src, map[string]string{"a": "backed up", "large": string(testkit.Noise(1, 300_000))})
	require.NoError(t, syscall.Mkfifo(filepath.Join(src, "fifo"), 0o644))
	for _, name := range []string{"a", "large", "fifo"} {
		require.NoError(t, os.Link(filepath.Join(src, name), filepath.Join(src, name+"-2")))
		require.NoError(t, os.Link(filepath.Join(src, name), filepath.Join(src, name+"-3")))
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
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
				dst := filepath.Join(testkit.RamDirBeside(t, dir), "out")
				require.NoError(t, os.Mkdir(dst, 0o755))
				for _, theirs := range []string{"a", "large", "fifo"} {
					require.NoError(t, make(filepath.Join(dst, theirs)))
				}
				before := inode(filepath.Join(dst, "a"))
				_, err := e.Restore(src, restore.Target{Path: dst, Overwrite: rule})
				require.NoError(t, err)
				require.Empty(t, e.Failures())
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
			dst := filepath.Join(testkit.RamDirBeside(t, dir), "out")
			_, err := e.Restore(src, restore.Target{Path: dst})
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(dst, "a-2")))
			require.NoError(t, os.Remove(filepath.Join(dst, "large-3")))
			_, err = e.Restore(src, restore.Target{Path: dst, Overwrite: rule})
			require.NoError(t, err)
			require.Equal(t, inode(filepath.Join(dst, "a")), inode(filepath.Join(dst, "a-2")))
			require.Equal(t, inode(filepath.Join(dst, "large")), inode(filepath.Join(dst, "large-3")))
		})
	}
}

// TestFileNamedLikeAnUnfinishedOne: a file may have the name that a restore gives to unfinished files. In a directory
// where such files may exist it is not restored, and that is a reported failure.
func TestFileNamedLikeAnUnfinishedOne(t *testing.T) {
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	const name = ".tidemark-f7d2f8b46dc004c5.part"
	kit.Written(t, src, map[string]string{name: "left by a killed restore", "big": string(testkit.Noise(1, 300_000)),
		"small": "x"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Written(t, dst, map[string]string{"there": "before"})
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Len(t, e.Failures(), 1)
	require.Contains(t, e.Failures()[0], name)
	require.NoFileExists(t, filepath.Join(dst, name))
	require.FileExists(t, filepath.Join(dst, "big"))
	require.FileExists(t, filepath.Join(dst, "small"))
}

// TestLinksOfTwoFileSystems: objects of two file systems with equal inode numbers, link counts, times and content stay
// two, in one directory as in two; names of one object stay together. An unchanged backup writes the same bytes.
func TestLinksOfTwoFileSystems(t *testing.T) {
	testkit.RequireRoot(t)
	base := testkit.RamDir(t)
	src, hidden := filepath.Join(base, "src"), filepath.Join(base, "hidden")
	one, two := filepath.Join(src, "one"), filepath.Join(src, "two")
	when := time.Unix(1_700_000_000, 5)
	for i, dir := range []string{one, two, hidden} {
		kit.Mount(t, "tmpfs", "tmpfs", dir, 0, "size=1m")
		a := filepath.Join(dir, "a")
		require.NoError(t, os.WriteFile(a, []byte("the same"), os.FileMode(0o400+i<<6)))
		require.NoError(t, os.Link(a, filepath.Join(dir, "a2")))
		require.NoError(t, os.Chtimes(a, when, when))
		require.Equal(t, kit.Inode(t, filepath.Join(one, "a")), kit.Inode(t, a), "the test needs equal inode numbers")
	}
	require.NoError(t, os.WriteFile(filepath.Join(hidden, "alone"), []byte("one name"), 0o644))
	for at, from := range map[string]string{"a1": "a", "a3": "a2", "alone": "alone"} { // files that are mount points
		at = filepath.Join(one, at)
		require.NoError(t, os.WriteFile(at, nil, 0o644))
		require.NoError(t, unix.Mount(filepath.Join(hidden, from), at, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	first, _, err := e.Backup(job)
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	job.NoDirCache = true
	again, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read, "nothing has changed")
	require.Equal(t, e.Subtree(first, src), e.Subtree(again, src))
	job.Source.Comparing.Force = true
	again, _, err = e.Backup(job)
	require.NoError(t, err)
	require.Equal(t, e.Subtree(first, src), e.Subtree(again, src), "also if nothing is taken over")

	out := filepath.Join(testkit.RamDir(t), "out")
	_, err = e.Restore(src, kit.Target(out))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	objects := map[uint64]bool{}
	for i, pair := range [][2]string{{"one/a", "one/a2"}, {"two/a", "two/a2"}, {"one/a1", "one/a3"}} {
		ino := kit.Inode(t, filepath.Join(out, pair[0]))
		require.Equal(t, ino, kit.Inode(t, filepath.Join(out, pair[1])), pair)
		objects[ino] = true
		info, err := os.Lstat(filepath.Join(out, pair[0]))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o400+i<<6), info.Mode(), pair)
	}
	require.Len(t, objects, 3)
}
