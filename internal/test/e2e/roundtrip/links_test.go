package roundtrip

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

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
