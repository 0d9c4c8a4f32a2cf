package restore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// The kinds of objects that can be in the snapshot and in the way.
var kindsOfObjects = map[string]testkit.Entry{
	"file":     testkit.File{Data: []byte("content"), Mtime: time.Unix(1.7e9, 5)},
	"large":    testkit.File{Data: testkit.Noise(1, 700_000), Mtime: time.Unix(1.7e9, 5)},
	"empty":    testkit.File{Mtime: time.Unix(1.7e9, 5)},
	"dir":      testkit.Dir{"inside": testkit.File{Data: []byte("inside")}},
	"symlink":  testkit.Symlink{Target: "/etc/passwd"},
	"fifo":     testkit.Fifo{},
	"socket":   testkit.Socket{},
	"linked":   testkit.Hardlink{To: "zz first name"},
	"no entry": nil,
}

// inTheWay makes an object of each kind at path. What it leads to, outside, must stay as it is.
func inTheWay(kind, path, outside string) error {
	switch kind {
	case "older file", "newer file":
		when := time.Unix(1e9, 0)
		if kind == "newer file" {
			when = time.Unix(1.9e9, 0)
		}
		return errors.Join(os.WriteFile(path, []byte("in the way"), 0o600), os.Chtimes(path, when, when))
	case "read-only file":
		return os.WriteFile(path, []byte("in the way"), 0o400)
	case "dir":
		return os.Mkdir(path, 0o700)
	case "full dir":
		return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "mine"), []byte("mine"), 0o600))
	case "link to file":
		return os.Symlink(filepath.Join(outside, "secret"), path)
	case "link to dir":
		return os.Symlink(outside, path)
	case "dead link":
		return os.Symlink(filepath.Join(outside, "made by the restore"), path)
	case "hard link":
		return os.Link(filepath.Join(outside, "secret"), path)
	case "fifo":
		return unix.Mkfifo(path, 0o600)
	case "socket":
		l, err := net.Listen("unix", filepath.Join(outside, "s"))
		if err != nil {
			return err
		}
		defer l.Close()
		return os.Rename(filepath.Join(outside, "s"), path)
	}
	return fmt.Errorf("no kind %q", kind)
}

var kindsInTheWay = []string{"older file", "newer file", "read-only file", "dir", "full dir", "link to file",
	"link to dir",
	"dead link", "hard link", "fifo", "socket"}

// TestEverythingInTheWayOfEverything restores each kind of object onto each other kind, under each rule. Nothing
// outside the target changes. An object is either unchanged, equal to the snapshot, or reported.
func TestEverythingInTheWayOfEverything(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for i, rule := range []string{"always", "if-changed", "if-newer", "never"} {
		for _, remove := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, delete %v", rule, remove), func(t *testing.T) {
				restoreOntoEverything(t, restore.Overwrite(i), remove)
			})
		}
	}
}

func restoreOntoEverything(t *testing.T, how restore.Overwrite, remove bool) {
	dir := testkit.RamDir(t)
	src, dst, out := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), kit.Outside(t, dir)
	all := testkit.Dir{"zz first name": testkit.File{Data: []byte("linked"), Mtime: time.Unix(1.7e9, 5)}}
	for _, way := range kindsInTheWay {
		for kind, entry := range kindsOfObjects {
			if entry != nil {
				all[kind+" onto "+way] = entry
			}
		}
	}
	testkit.Write(t, src, all)
	require.NoError(t, os.MkdirAll(dst, 0o755))
	for _, way := range kindsInTheWay {
		for kind := range kindsOfObjects {
			require.NoError(t, inTheWay(way, filepath.Join(dst, kind+" onto "+way), out))
		}
	}
	before := outsideState(t, out)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	_, err = e.Restore(src, restore.Target{Path: dst, Overwrite: how, Delete: remove})
	require.NoError(t, err)
	reported := strings.Join(e.Failures(), "\n")
	differs := strings.Join(testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{Limit: 1 << 20}), "\n")
	for _, way := range kindsInTheWay {
		for kind := range kindsOfObjects {
			name := kind + " onto " + way
			requireOutcome(t, how, remove, kind, way, filepath.Join(dst, name), !strings.Contains(differs, "./"+name),
				strings.Contains(reported, name))
		}
	}
	require.Equal(t, before, outsideState(t, out), "something outside the target was changed")
}

// outsideState is what must not change: names, contents, and times. Links that lead there may go.
func outsideState(t *testing.T, dir string) (state []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, _ := os.ReadFile(path)
		state = append(state, fmt.Sprintf("%s %s %s %s", path, info.Mode(), info.ModTime(), data))
		return nil
	}))
	return state
}

func requireOutcome(t *testing.T, how restore.Overwrite, remove bool, kind, way, to string, exact, reported bool) {
	t.Helper()
	what := filepath.Base(to)
	if kind == "no entry" {
		_, err := os.Lstat(to)
		require.Equal(t, remove, errors.Is(err, os.ErrNotExist), "%s: only --delete removes it", what)
		return
	}
	isDir, dirThere := kind == "dir", way == "dir" || way == "full dir"
	if isDir && dirThere {
		require.FileExists(t, filepath.Join(to, "inside"), what)
		_, err := os.Lstat(filepath.Join(to, "mine"))
		require.Equal(t, way == "full dir" && !remove, err == nil, "%s: what is not in the snapshot", what)
		return
	}
	switch {
	case how == restore.Never:
		require.False(t, exact, "%s: nothing may be overwritten", what)
		require.Equal(t, isDir, reported, "%s: a directory that cannot be made is a failure", what)
	case way == "full dir" && !remove && how == restore.Always:
		require.True(t, reported, "%s: a full directory in the way is reported", what)
		require.FileExists(t, filepath.Join(to, "mine"))
	case how == restore.Always:
		require.True(t, exact, "%s: is as in the snapshot", what)
		require.False(t, reported, what)
	case exact || reported:
	default: // kept by the rule
		require.True(t, how == restore.IfNewer || how == restore.IfChanged, what)
	}
}

// TestLinkInTargetIsNotFollowed puts links to directories outside where a restore wants to go deeper.
func TestLinkInTargetIsNotFollowed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for i, rule := range []string{"always", "if-changed", "if-newer", "never"} {
		t.Run(rule, func(t *testing.T) {
			dir := testkit.RamDir(t)
			src, dst, out := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), kit.Outside(t, dir)
			kit.Written(t, src, map[string]string{"a/secret": "mine", "a/deeper/secret": "mine", "b/deeper/new": "n", "c": "c"})
			require.NoError(t, os.MkdirAll(filepath.Join(dst, "b"), 0o755))
			require.NoError(t, os.Symlink(out, filepath.Join(dst, "a")))
			require.NoError(t, os.Symlink(filepath.Join(out, "deeper"), filepath.Join(dst, "b/deeper")))
			require.NoError(t, os.Symlink("../outside", filepath.Join(dst, "extra")))
			before := outsideState(t, out)
			kit.Settle()
			e := kit.NewEngine(t, nil)
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			_, err = e.Restore(src, restore.Target{Path: dst, Overwrite: restore.Overwrite(i), Delete: true, Verify: true})
			require.NoError(t, err)
			require.Equal(t, before, outsideState(t, out))
			require.NoFileExists(t, filepath.Join(dst, "extra"))
			if rule == "always" {
				require.Empty(t, e.Failures())
				require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
			}
		})
	}
}

// TestTargetSwappedWhileRestoring: a directory of the target is replaced by a link while its files are written.
func TestTargetSwappedWhileRestoring(t *testing.T) {
	dir := testkit.RamDir(t)
	src, dst, out := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), kit.Outside(t, dir)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) })
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 512, Max: limit.Max})) // 128 directories
	// more directories than are kept open
	for i := range 400 {
		kit.Written(t, src, map[string]string{fmt.Sprintf("d%03d/f", i): string(testkit.Noise(uint64(i), 3000))})
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	var swapped atomic.Bool
	inner := e.Store
	e.Store = &kit.OnGet{Store: inner, OnPack: func() {
		// all are made, none has content
		if _, err := os.Lstat(filepath.Join(dst, "d399")); err == nil && !swapped.Swap(true) {
			for i := range 400 {
				path := filepath.Join(dst, fmt.Sprintf("d%03d", i))
				require.NoError(t, os.Rename(path, path+".moved"))
				require.NoError(t, os.Symlink(out, path))
			}
		}
	}}
	before := outsideState(t, out)
	_, err = e.Restore(src, kit.Target(dst))
	require.NoError(t, err)
	require.True(t, swapped.Load())
	require.Equal(t, before, outsideState(t, out))
	require.NotEmpty(t, e.Failures(), "what could not be written is reported")
}

// TestRestoreSelection restores parts: a path, a file, the result of a filter; and removes objects only inside that
// part.
func TestRestoreSelection(t *testing.T) {
	t.Parallel()
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	kit.Written(t, src, map[string]string{"a/x.txt": "1", "a/y.bin": "2", "b/c/z.txt": "3", "b/w.bin": "4",
		"e/only.bin": "5"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	suffix := func(end string) func(string, tree.Type) (bool, bool) {
		return func(path string, typ tree.Type) (bool, bool) { return strings.HasSuffix(path, end), typ == tree.Dir }
	}
	for _, c := range []struct {
		name   string
		sel    restore.Selection
		remove bool
		there  []string // before
		want   []string // after
	}{
		{"all", restore.Selection{Sub: src}, false, nil,
			[]string{"a/x.txt", "a/y.bin", "b/c/z.txt", "b/w.bin", "e/only.bin"}},
		{"a directory", restore.Selection{Sub: src + "/b"}, false, nil, []string{"c/z.txt", "w.bin"}},
		{"a file", restore.Selection{Sub: src + "/b/c/z.txt"}, false, nil, []string{"z.txt"}},
		{"by name", restore.Selection{Sub: src, Take: suffix(".txt")}, false, nil, []string{"a/x.txt", "b/c/z.txt"}},
		{"nothing", restore.Selection{Sub: src, Take: suffix(".none")}, false, nil, nil},
		{"beside others", restore.Selection{Sub: src + "/a"}, false, []string{"mine", "sub/mine"},
			[]string{"mine", "sub/mine", "x.txt", "y.bin"}},
		{"delete", restore.Selection{Sub: src + "/a"}, true, []string{"mine", "sub/deep/mine"}, []string{"x.txt", "y.bin"}},
		{"delete what the filter takes", restore.Selection{Sub: src + "/a", Take: suffix(".txt")}, true,
			[]string{"mine", "old.txt"}, []string{"mine", "x.txt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := filepath.Join(testkit.RamDir(t), "out")
			for _, name := range c.there {
				kit.Written(t, dst, map[string]string{name: "there"})
			}
			require.NoError(t, e.RestorePart(t.Context(), c.sel, restore.Target{Path: dst, Delete: c.remove, DryRun: true}))
			require.ElementsMatch(t, c.there, filesBelow(t, dst), "a dry run changes nothing")
			require.NoError(t, e.RestorePart(t.Context(), c.sel, restore.Target{Path: dst, Delete: c.remove, Verify: true}))
			require.Empty(t, e.Failures())
			require.ElementsMatch(t, c.want, filesBelow(t, dst))
		})
	}
	for _, sub := range []string{src + "/gone", src + "/a/x.txt/below", "/nowhere"} {
		err := e.RestorePart(t.Context(), restore.Selection{Sub: sub}, kit.Target(filepath.Join(dir, "none")))
		require.ErrorIs(t, err, restore.ErrNoPath, sub)
		require.NoDirExists(t, filepath.Join(dir, "none"))
	}
}

func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	slices.Sort(names)
	return names
}

// TestDeleteSparesFilesBeingWritten: the walk through a directory is at its end, and looks for what does not belong
// there, while a file of it is being written under its temporary name.
func TestDeleteSparesFilesBeingWritten(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	for i := range 8200 { // several windows: what comes after the first is on its way long before the walk is at its end
		kit.Written(t, src, map[string]string{fmt.Sprintf("f%05d", i): fmt.Sprintf("%0200d", i)})
	}
	for i := range 6000 { // these are written by the walk itself, so that it is not at its end too soon
		kit.Written(t, src, map[string]string{fmt.Sprintf("g%05d", i): "tiny"})
	}
	kit.Written(t, src, map[string]string{"a large one": string(testkit.Noise(1, 8<<20))})
	kit.Written(t, dst, map[string]string{".tidemark-0123456789abcdef.part": "left by a killed run", "extra": "x"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	inner := e.Store
	var met atomic.Bool
	e.Store = &kit.OnGet{Store: inner, OnPack: func() {
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); kit.Settle() {
			parts, err := filepath.Glob(filepath.Join(dst, ".tidemark-*"))
			require.NoError(t, err)
			_, err = os.Lstat(filepath.Join(dst, "extra"))
			if len(parts) == 0 || errors.Is(err, os.ErrNotExist) {
				return
			}
			if slices.ContainsFunc(parts, func(part string) bool { return !strings.HasSuffix(part, "0123456789abcdef.part") }) {
				met.Store(true) // wait with the next part of the file until the walk has removed what does not belong there
			} else {
				return
			}
		}
	}}
	_, err = e.Restore(src, restore.Target{Path: dst, Delete: true})
	require.NoError(t, err)
	t.Logf("the walk and a file being written met: %v", met.Load()) // scheduling decides; the result must be exact always
	require.Empty(t, e.Failures())
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
}

// TestProtectedAndReadOnlyTargets: flags that protect files are taken off where the user asked to overwrite, and a
// target that cannot be written is a clear error.
func TestProtectedAndReadOnlyTargets(t *testing.T) {
	testkit.RequireRoot(t)
	dir := testkit.TempDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	kit.Written(t, src, map[string]string{"fixed": "new", "growing": "new", "fixed dir/f": "new"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	testkit.Write(t, dst, testkit.Dir{
		"fixed":   testkit.With{Of: testkit.File{Data: []byte("old")}, Flags: testkit.FlagImmutable},
		"growing": testkit.With{Of: testkit.File{Data: []byte("old")}, Flags: testkit.FlagAppend},
		"extra":   testkit.With{Of: testkit.File{Data: []byte("old")}, Flags: testkit.FlagImmutable},
	})
	_, err = e.Restore(src, restore.Target{Path: dst, Overwrite: restore.Never})
	require.NoError(t, err)
	require.Equal(t, "old", readFile(t, filepath.Join(dst, "fixed")), "left alone")
	_, err = e.Restore(src, restore.Target{Path: dst, Delete: true, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))

	disk := filepath.Join(testkit.RamDir(t), "disk")
	testkit.Mount(t, "tmpfs", "tmpfs", disk, unix.MS_RDONLY, "")
	_, err = e.Restore(src, kit.Target(disk))
	require.NoError(t, err)
	require.NotEmpty(t, e.Failures())
	require.Contains(t, e.Failures()[0], "read-only")
	_, err = e.Restore(src, kit.Target(filepath.Join(disk, "new")))
	require.ErrorIs(t, err, unix.EROFS)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
