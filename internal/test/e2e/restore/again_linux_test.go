package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// closedFolders is a tree with what users other than root find hard to write twice: folders without the right to write,
// and in them each kind of object, with several names too.
func closedFolders(t *testing.T, src string) {
	t.Helper()
	testkit.Write(t, src, testkit.Dir{
		"top": testkit.File{Data: []byte("top"), Mtime: time.Unix(1.6e9, 7)},
		"ro": testkit.With{Mode: 0o555, Xattrs: map[string]string{"user.d": "of a folder"}, Of: testkit.Dir{
			"a":        testkit.File{Data: []byte("linked"), Mtime: time.Unix(1.6e9, 7)},
			"b":        testkit.Hardlink{To: "ro/a"},
			"big":      testkit.File{Data: testkit.Noise(1, 3_000_000), Mtime: time.Unix(1.6e9, 7)},
			"big too":  testkit.Hardlink{To: "ro/big"},
			"top too":  testkit.Hardlink{To: "top"},
			"one":      testkit.File{Data: []byte("one"), Mode: 0o444},
			"tagged":   testkit.With{Of: testkit.File{Data: []byte("t")}, Mode: 0o444, Xattrs: map[string]string{"user.k": "v"}},
			"sparse":   testkit.Sparse{Size: 5 << 20},
			"sym":      testkit.Symlink{Target: "a"},
			"sym too":  testkit.Hardlink{To: "ro/sym"},
			"fifo":     testkit.Fifo{},
			"fifo too": testkit.Hardlink{To: "ro/fifo"},
			"socket":   testkit.Socket{},
			"sub": testkit.With{Mode: 0o555,
				Of: testkit.Dir{"a too": testkit.Hardlink{To: "ro/a"}, "file": testkit.File{Data: []byte("f")}}},
			"hollow": testkit.With{Mode: 0o555, Of: testkit.Dir{}},
		}},
	})
}

// states lists everything about each object below dir that a restore could change, including its last change time.
func states(t *testing.T, dir string) (lines []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%s ino %d mode %o owner %d:%d links %d modified %d changed %d", path,
			st.Ino, st.Mode,
			st.Uid, st.Gid, st.Nlink, st.Mtim.Nano(), st.Ctim.Nano()))
		return nil
	}))
	return lines
}

// TestRestoreAgainChangesNothing: an equal object stays unchanged under every rule, and is counted as such, for root
// and for other users.
func TestRestoreAgainChangesNothing(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	closedFolders(t, src)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	totals, err := e.Restore(src, kit.Target(dst))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Equal(t, uint64(19), totals.Objects.Inspected)
	require.Equal(t, uint64(19), totals.Objects.Restored)
	require.Zero(t, totals.Objects.Kept)
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
	before := states(t, dst)
	kit.Settle() // so that a change would show
	for i, rule := range []string{"always", "if-changed", "if-newer", "never"} {
		for _, dry := range []bool{true, false} {
			totals, err := e.Restore(src, restore.Target{Path: dst, Overwrite: restore.Overwrite(i), DryRun: dry, Delete: true,
				Verify: true})
			require.NoError(t, err, rule)
			require.Empty(t, e.Ledger.Issues(), rule)
			require.Equal(t, before, states(t, dst), rule)
			require.Zero(t, totals.Objects.Restored, "%s, dry run %v: nothing was made", rule, dry)
			require.Equal(t, uint64(19), totals.Objects.Kept, "%s, dry run %v: all was there", rule, dry)
			require.Zero(t, totals.Objects.Deleted, rule)
		}
	}
	if os.Geteuid() == 0 {
		require.True(t, kit.AsNobody(t))
	}
}

// TestRestoreIntoClosedFolders: a user other than root has folders without write permission, and restores everything
// into them, whatever has become of their contents.
func TestRestoreIntoClosedFolders(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if kit.AsNobody(t) {
		return
	}
	for _, mode := range []os.FileMode{0o555, 0o444, 0o111, 0} {
		t.Run(fmt.Sprintf("%03o", mode), func(t *testing.T) {
			dir := testkit.RamDir(t)
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			closedFolders(t, src)
			kit.Settle()
			e := kit.NewEngine(t, nil)
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			_, err = e.Restore(src, kit.Target(dst))
			require.NoError(t, err)
			open := func(mode os.FileMode) {
				require.NoError(t, os.Chmod(filepath.Join(dst, "ro"), 0o700))
				require.NoError(t, os.Chmod(filepath.Join(dst, "ro/sub"), mode))
			}
			open(0o700)
			ro := filepath.Join(dst, "ro")
			require.NoError(t, os.Remove(filepath.Join(ro, "one")))
			require.NoError(t, os.Remove(filepath.Join(ro, "sub/a too")))
			require.NoError(t, os.RemoveAll(filepath.Join(ro, "hollow")))
			require.NoError(t, os.Remove(filepath.Join(ro, "sym too")))
			require.NoError(t, os.Remove(filepath.Join(ro, "fifo")))
			require.NoError(t, os.WriteFile(filepath.Join(ro, "fifo"), nil, 0))
			require.NoError(t, os.Remove(filepath.Join(ro, "sub/file")))
			require.NoError(t, os.WriteFile(filepath.Join(ro, "sub/file"), []byte("changed"), 0o400))
			require.NoError(t, os.WriteFile(filepath.Join(ro, "big"), []byte("changed, by both names"), 0o400))
			require.NoError(t, os.Chmod(filepath.Join(ro, "tagged"), 0o600))
			require.NoError(t, syscall.Setxattr(filepath.Join(ro, "tagged"), "user.other", []byte("x"), 0))
			require.NoError(t, os.Chmod(filepath.Join(ro, "tagged"), 0))
			testkit.Write(t, filepath.Join(ro, "extra"), testkit.Dir{"deep": testkit.With{Mode: testkit.ModeNone,
				Of: testkit.Dir{"file": testkit.File{Data: []byte("x"), Mode: testkit.ModeNone}}}})
			require.NoError(t, os.Chmod(filepath.Join(ro, "extra"), 0o555))
			open(mode)
			require.NoError(t, os.Chmod(ro, mode))

			totals, err := e.Restore(src, restore.Target{Path: dst, Delete: true, DryRun: true})
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			info, err := os.Lstat(ro)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), "a dry run changes nothing")
			require.NotZero(t, totals.Objects.Restored)

			totals, err = e.Restore(src, restore.Target{Path: dst, Delete: true, Verify: true})
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
			require.Equal(t, uint64(3), totals.Objects.Deleted)
			for range 2 {
				totals, err = e.Restore(src, restore.Target{Path: dst, Delete: true, Verify: true})
				require.NoError(t, err)
				require.Empty(t, e.Ledger.Issues())
				require.Zero(t, totals.Objects.Restored)
			}
		})
	}
}

// TestClosedFoldersStayClosed: a folder that was opened for a restore has its permissions back when that is over, also
// when it was cancelled, and when they are not the restore's business.
func TestClosedFoldersStayClosed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if kit.AsNobody(t) {
		return
	}
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	kit.Written(t, src, map[string]string{"way/f": "f", "way/deep/big": string(testkit.Noise(1, 30<<20))})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Written(t, dst, map[string]string{"way/other": "x", "way/deep/other": "x"})
	modes := func() (all []os.FileMode) {
		for _, name := range []string{"way", "."} {
			info, err := os.Lstat(filepath.Join(dst, name))
			require.NoError(t, err)
			all = append(all, info.Mode().Perm())
		}
		return all
	}
	require.NoError(t, os.Chmod(filepath.Join(dst, "way/deep"), 0o500))
	require.NoError(t, os.Chmod(filepath.Join(dst, "way"), 0o111))
	require.NoError(t, os.Chmod(dst, 0o555))
	ctx, stop := context.WithCancelCause(t.Context())
	inner, called := e.Store, errors.New("called off")
	var met atomic.Bool
	e.Store = &kit.OnGet{Store: inner, OnPack: func() {
		if info, err := os.Lstat(filepath.Join(dst, "way/deep")); err == nil && info.Mode().Perm() == 0o700 {
			met.Store(true)
			stop(called)
		}
	}}
	require.ErrorIs(t, e.RestoreCtx(ctx, src, kit.Target(dst)), called)
	require.True(t, met.Load(), "it had been opened")
	require.Equal(t, []os.FileMode{0o111, 0o555}, modes())
	e.Store = inner
	only := restore.Selection{Sub: src,
		Take: func(path string, typ tree.Type) (bool, bool) { return strings.HasSuffix(path, "big"), true }}
	require.NoError(t, e.RestorePart(t.Context(), only, restore.Target{Path: dst, Verify: true}))
	require.Empty(t, e.Failures())
	require.Equal(t, []os.FileMode{0o111, 0o755}, modes(), "the folder on the way stays as it is")
	require.NoError(t, os.Chmod(filepath.Join(dst, "way"), 0o755))
	require.FileExists(t, filepath.Join(dst, "way/deep/big"))
}

// TestLinkedFileOfAnotherUser: an equal file of the target that has a name outside the target is replaced by a new
// file, so that the file outside stays unchanged.
func TestLinkedFileOfAnotherUser(t *testing.T) {
	dir := testkit.RamDir(t)
	src, dst, out := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "out")
	same := testkit.File{Data: []byte("same"), Mtime: time.Unix(1.6e9, 0)}
	testkit.Write(t, src, testkit.Dir{"a": same, "b": testkit.Hardlink{To: "a"}, "single": same})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	kit.Written(t, out, map[string]string{"x": "same", "y": "same"})
	require.NoError(t, os.MkdirAll(dst, 0o755))
	require.NoError(t, os.Link(filepath.Join(out, "x"), filepath.Join(dst, "a")))
	require.NoError(t, os.Link(filepath.Join(out, "y"), filepath.Join(dst, "single")))
	before := outsideState(t, out)
	for range 2 {
		_, err = e.Restore(src, kit.Target(dst))
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		require.Equal(t, before, outsideState(t, out))
		require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
	}
	require.Zero(t, e.Ledger.Snapshot().Objects.Restored)
}

// TestRestoreCountsWhatItMakes: of the existing objects, only changed ones count as restored.
func TestRestoreCountsWhatItMakes(t *testing.T) {
	t.Parallel()
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	testkit.Write(t, src, testkit.Dir{
		"d": testkit.Dir{"f": testkit.File{Data: []byte("f")}, "l": testkit.Hardlink{To: "d/f"},
			"s": testkit.Symlink{Target: "f"}},
		"e": testkit.Dir{"g": testkit.File{Data: []byte("g")}},
	})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	counts := func(change func()) (restored, kept uint64) {
		_, err := e.Restore(src, kit.Target(dst))
		require.NoError(t, err)
		change()
		var all [2]report.Totals
		for i, dry := range []bool{true, false} {
			all[i], err = e.Restore(src, restore.Target{Path: dst, DryRun: dry})
			require.NoError(t, err)
			require.Empty(t, e.Failures())
		}
		require.Equal(t, all[0].Objects.Restored, all[1].Objects.Restored, "a dry run reports the same")
		require.Equal(t, all[0].Objects.Kept, all[1].Objects.Kept, "a dry run reports the same")
		require.Equal(t, uint64(6), all[1].Objects.Kept+all[1].Objects.Restored, "each object counts once")
		return all[1].Objects.Restored, all[1].Objects.Kept
	}
	for _, c := range []struct {
		name     string
		change   func()
		restored uint64
	}{
		{"nothing", func() {}, 0},
		{"mode of a folder", func() { require.NoError(t, os.Chmod(filepath.Join(dst, "e"), 0o700)) }, 1},
		{"mode of a file", func() { require.NoError(t, os.Chmod(filepath.Join(dst, "e/g"), 0o600)) }, 1},
		// and the time of its folder
		{"a file is gone", func() { require.NoError(t, os.Remove(filepath.Join(dst, "e/g"))) }, 2},
		{"a name is gone", func() { require.NoError(t, os.Remove(filepath.Join(dst, "d/l"))) }, 2},
		{"a link is gone", func() { require.NoError(t, os.Remove(filepath.Join(dst, "d/s"))) }, 2},
		{"all is gone", func() { require.NoError(t, os.RemoveAll(dst)) }, 6},
	} {
		restored, _ := counts(c.change)
		require.Equal(t, c.restored, restored, c.name)
	}
}
