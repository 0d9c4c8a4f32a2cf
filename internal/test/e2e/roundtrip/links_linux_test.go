package roundtrip

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestTargetWithoutHardLinks restores a hard-linked file onto a file system without hard links: as reported copies.
func TestTargetWithoutHardLinks(t *testing.T) {
	disk, src := testkit.Disk(t, 32<<20, "mkfs.vfat"), filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{"one": "linked", "big": string(testkit.Noise(1, 3<<20))})
	require.NoError(t, os.Link(filepath.Join(src, "one"), filepath.Join(src, "two")))
	require.NoError(t, os.Link(filepath.Join(src, "big"), filepath.Join(src, "big2")))
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
	testkit.Slow(t)
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
	testkit.MountMemory(t, filepath.Join(out, "b"), "5m")
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

// TestLinksOfTwoFileSystems: objects of two file systems with equal inode numbers, link counts, times and content stay
// two, in one directory as in two; names of one object stay together. An unchanged backup writes the same bytes.
func TestLinksOfTwoFileSystems(t *testing.T) {
	testkit.RequireRoot(t)
	base := testkit.RamDir(t)
	src, hidden := filepath.Join(base, "src"), filepath.Join(base, "hidden")
	one, two := filepath.Join(src, "one"), filepath.Join(src, "two")
	when := time.Unix(1_700_000_000, 5)
	for i, dir := range []string{one, two, hidden} {
		testkit.MountMemory(t, dir, "1m")
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
