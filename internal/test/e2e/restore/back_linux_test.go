package restore

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestDeleteLeavesTheWayToSources: of a directory that is only on the way to a source, the snapshot does not know what
// else was in it. What is in it now is not deleted because of that.
func TestDeleteLeavesTheWayToSources(t *testing.T) {
	dir := testkit.RamDir(t)
	kit.Written(t, dir, map[string]string{"w/a/f": "f", "w/a/d/g": "g", "w/out/h": "h", "w/way/gone/x": "x"})
	kit.Settle()
	t.Chdir(filepath.Join(dir, "w"))
	excluded := rules.NewBuilder()
	require.NoError(t, excluded.Exclude(filepath.Join(dir, "w/way/gone"), false, "test"))
	for _, c := range []struct {
		name    string
		sources []string
		sub     string // what is restored of the snapshot
		at      string // where its content lies in the target, and the source in that
		place   string
		root    bool // what is restored lies in the source
	}{
		{"absolute", []string{dir + "/w/a"}, "", "", dir + "/w/a", false},
		{"one directory above", []string{dir + "/w/a"}, dir + "/w", "", "a", false},
		{"relative", []string{"a"}, dir + "/w", "", "a", false},
		{"by way of the directory above", []string{"../w/a"}, dir, "", "w/a", false},
		{"dot", []string{"."}, dir + "/w", "", "a", true},
		{"the source itself", []string{"a"}, dir + "/w/a", "", "", true},
		{"two", []string{"a", "out"}, dir + "/w", "", "a", false},
		{"and one that is left out", []string{"a", "way/gone"}, dir + "/w", "", "a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := kit.NewEngine(t, nil)
			job := e.JobOf(c.sources...)
			job.Source.Rules = excluded.Compile()
			_, _, err := e.Backup(job)
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			dst := testkit.RamDir(t)
			kit.Written(t, dst, map[string]string{
				"mine": "x", "way/mine": "x", filepath.Join(c.place, "extra"): "x", filepath.Join(c.place, "d/extra/deep"): "x",
				filepath.Join(filepath.Dir(filepath.Join("/", c.place)), "beside"): "x",
			})
			for _, dry := range []bool{true, false} {
				_, err = e.Restore(c.sub, restore.Target{Path: dst, Delete: true, DryRun: dry})
				require.NoError(t, err)
				require.Empty(t, e.Failures())
				require.Equal(t, dry, exists(filepath.Join(dst, c.place, "extra")))
				require.Equal(t, dry, exists(filepath.Join(dst, c.place, "d/extra")))
			}
			require.FileExists(t, filepath.Join(dst, c.place, "f"))
			require.Equal(t, !c.root, exists(filepath.Join(dst, "mine")))
			require.Equal(t, !c.root, exists(filepath.Join(dst, "way/mine")) &&
				exists(filepath.Join(dst, filepath.Dir(filepath.Join("/", c.place)), "beside")))
			if !c.root {
				require.Contains(t, remarks(e), "only on the way")
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// remarks are what the last job noted.
func remarks(e *kit.Engine) string {
	var all strings.Builder
	for _, i := range e.Ledger.Issues() {
		if i.Remark {
			all.WriteString(i.Path + ": " + i.Op + ": " + i.Err.Error() + "\n")
		}
	}
	return all.String()
}

// foldingDisk is a mounted file system that takes upper and lower case for the same.
func foldingDisk(t *testing.T) string {
	t.Helper()
	mkfs := testkit.RequireTool(t, "mkfs.vfat")
	testkit.RequireRoot(t)
	dir := testkit.RamDir(t)
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 32<<20))
	require.NoError(t, exec.CommandContext(t.Context(), mkfs, image).Run())
	require.NoError(t, os.Mkdir(disk, 0o755))
	if exec.CommandContext(t.Context(), "mount", "-o", "loop", image, disk).Run() != nil {
		foldingDaemon(t, image, disk)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	return disk
}

// foldingDaemon mounts such a file system where the kernel has none.
func foldingDaemon(t *testing.T, image, disk string) {
	t.Helper()
	mkfs, mount := testkit.RequireTool(t, "mkfs.exfat"), testkit.RequireTool(t, "mount.exfat-fuse")
	require.NoError(t, exec.CommandContext(t.Context(), mkfs, image).Run())
	device, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Skipf("attach a loop device: %v", err)
	}
	loop := strings.TrimSpace(string(device))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", loop).Run() })
	if out, err := exec.CommandContext(t.Context(), mount, loop, disk).CombinedOutput(); err != nil {
		t.Skipf("mount exfat: %s", out)
	}
}

// TestNamesThatCollideOnTheTarget: one of two files takes the place of the other. The restore reports that each time,
// also when the directory was there already.
func TestNamesThatCollideOnTheTarget(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	disk := foldingDisk(t)
	src := filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{
		"Makefile": "one", "makefile": "the other", "Big": string(testkit.Noise(1, 3<<20)),
		"big":   string(testkit.Noise(2, 3<<20)),
		"Dir/f": "1", "dir/f": "2", "alone": "alone", "Sub/A/x": "x", "sub/a/y": "y",
	})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	there := filepath.Join(disk, "empty")
	require.NoError(t, os.Mkdir(there, 0o755))
	for _, dst := range []string{there, filepath.Join(disk, "new")} {
		for i, rule := range []string{"always", "if-changed", "if-newer", "never", "always"} {
			for _, remove := range []bool{false, true} {
				_, err = e.Restore(src, restore.Target{Path: dst, Delete: remove, Overwrite: restore.Overwrite(i % 4)})
				require.NoError(t, err)
				reported := strings.Join(e.Failures(), "\n")
				// of two under way at once, the first to be whole
				for _, name := range []string{"/makefile:", "/big:", "/dir:", "/sub:"} {
					require.Contains(t, strings.ToLower(reported), name, "%s, round %d, %s", dst, i, rule)
				}
				require.Len(t, e.Failures(), 4, "%s, round %d, %s:\n%s", dst, i, rule, reported)
				for name, text := range map[string]string{"Makefile": "one", "Dir/f": "1", "alone": "alone", "Sub/A/x": "x"} {
					got, err := os.ReadFile(filepath.Join(dst, name))
					require.NoError(t, err)
					require.Equal(t, text, string(got), name)
				}
			}
		}
	}
}

// TestDeleteRefusesOtherSpellings: a listing can spell a file of the snapshot differently. Then it does not show which
// entries are superfluous, and nothing is deleted in that directory.
func TestDeleteRefusesOtherSpellings(t *testing.T) {
	t.Parallel()
	disk := foldingDisk(t)
	src := filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{"README": "read me", "dot.": "dot", "Changed": "new", "Dir/f": "f"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	dst := filepath.Join(disk, "dst")
	kit.Written(t, dst, map[string]string{"readme": "read me", "dot": "dot", "changed": "old", "DIR/f": "f",
		"DIR/extra": "x",
		"extra":     "x", "dir2/x": "x"})
	for range 2 {
		_, err = e.Restore(src, restore.Target{Path: dst, Delete: true})
		require.NoError(t, err)
		require.Len(t, e.Failures(), 1)
		require.Contains(t, e.Failures()[0], "another spelling")
		for name, text := range map[string]string{"README": "read me", "dot.": "dot", "Changed": "new", "Dir/f": "f"} {
			got, err := os.ReadFile(filepath.Join(dst, name))
			require.NoError(t, err, name)
			require.Equal(t, text, string(got), name)
		}
		require.True(t, exists(filepath.Join(dst, "extra")))
		require.True(t, exists(filepath.Join(dst, "dir2/x")))
		require.False(t, exists(filepath.Join(dst, "DIR/extra")), "in this directory all names are as listed")
	}
}

// TestHoleOverOldContent: a snapshot may describe a file that is one hole by its size alone. Such a file differs from
// one of that size with data in it.
func TestHoleOverOldContent(t *testing.T) {
	dst := filepath.Join(testkit.RamDir(t), "out")
	kit.Written(t, dst, map[string]string{"hole": strings.Repeat("x", 100_000), "short": strings.Repeat("y", 5000)})
	e := &kit.Engine{T: t}
	restoreStored(e, stored.Dir{
		"hole":  &tree.Node{Type: tree.File, Mode: 0o644, Links: 1, Size: 100_000},
		"short": &tree.Node{Type: tree.File, Mode: 0o644, Links: 1, Size: 5000, Content: tree.Content{Inline: []byte("yyy")}},
	}, restore.Target{Path: dst, Verify: true})
	require.Empty(t, e.Failures())
	got, err := os.ReadFile(filepath.Join(dst, "hole"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(make([]byte, 100_000), got))
	got, err = os.ReadFile(filepath.Join(dst, "short"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(append([]byte("yyy"), make([]byte, 4997)...), got))
	require.EqualValues(t, 105_000, e.Ledger.Snapshot().Bytes.Restored, "all of it is in place")
}

// TestVerifyReportsUnderEveryRule: a file that a rule leaves alone may be another one, but not one that only looks like
// that of the snapshot.
func TestVerifyReportsUnderEveryRule(t *testing.T) {
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	kit.Written(t, src, map[string]string{"f": "as it was", "other": "as it was"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	for _, rule := range []restore.Overwrite{restore.IfChanged, restore.IfNewer, restore.Never} {
		kit.Written(t, dst, map[string]string{"f": "as it is.", "other": "of another"})
		info, err := os.Lstat(filepath.Join(src, "f"))
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(filepath.Join(dst, "f"), info.ModTime(), info.ModTime()))
		_, err = e.Restore(src, restore.Target{Path: dst, Overwrite: rule, Verify: true})
		require.NoError(t, err)
		require.Len(t, e.Failures(), 1, "rule %d: %q", rule, e.Failures())
		require.Contains(t, e.Failures()[0], "/f: verify")
	}
}

// TestWhatIsThereStaysForDamage: if the content of a file is lost, the restore keeps any object in its place.
func TestWhatIsThereStaysForDamage(t *testing.T) {
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	names := []string{"file", "link", "fifo"}
	for i, name := range names {
		kit.Written(t, src, map[string]string{name: string(testkit.Noise(uint64(i), 200_000))})
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Written(t, dst, map[string]string{"file": "mine"})
	require.NoError(t, os.Symlink("mine", filepath.Join(dst, "link")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dst, "fifo"), 0o600))
	s := spoil(t, e.Store, nil)
	e.Store = s
	s.at = 1 << 10
	_, err = e.Restore(src, kit.Target(dst))
	require.NoError(t, err)
	require.NotZero(t, s.hits)
	require.Len(t, e.Failures(), len(names), "%q", e.Failures())
	got, err := os.ReadFile(filepath.Join(dst, "file"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(got))
	to, err := os.Readlink(filepath.Join(dst, "link"))
	require.NoError(t, err, "the link stays")
	require.Equal(t, "mine", to)
	info, err := os.Lstat(filepath.Join(dst, "fifo"))
	require.NoError(t, err, "the fifo stays")
	require.NotZero(t, info.Mode()&os.ModeNamedPipe)
}

// restoreStored restores a snapshot that no backup would write.
func restoreStored(e *kit.Engine, d stored.Dir, to restore.Target) {
	e.T.Helper()
	r := stored.Init(e.T, mem.New())
	saved := stored.Save(e.T, r, 0, d)
	e.Ledger = report.NewJob(report.Restore, time.Now)
	_, err := restore.Run(e.T.Context(), r, restore.Selection{Tree: saved.Tree}, to, 2,
		e.Ledger)
	require.NoError(e.T, err)
}

// TestLinksAreOfOneFileSystem: two objects of one directory may have one inode number, if they lie on two file systems.
func TestLinksAreOfOneFileSystem(t *testing.T) {
	link := func(fs uint64) *tree.Node {
		return &tree.Node{Type: tree.File, Mode: 0o600, Links: 2, Inode: 7, FS: fs, Size: 3,
			Content: tree.Content{Inline: []byte("abc")}}
	}
	dst := filepath.Join(testkit.RamDir(t), "out")
	restoreStored(kit.NewEngine(t, nil), stored.Dir{
		"a": link(0), "b": link(4), "c": link(5), "d": stored.Dir{"a": link(0), "b": link(4), "c": link(5)},
	}, kit.Target(dst))
	objects := map[uint64]bool{}
	for _, name := range []string{"a", "b", "c"} {
		ino := kit.Inode(t, filepath.Join(dst, name))
		require.Equal(t, ino, kit.Inode(t, filepath.Join(dst, "d", name)), name)
		objects[ino] = true
	}
	require.Len(t, objects, 3)
}
