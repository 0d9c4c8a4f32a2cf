package localfs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Whatever the umask and the group of the directory: what comes out is what the node says, from the first object to the
// last, and what was learned from one of them does not spoil another.
func TestMakerMeetsWhatItDoesNotExpect(t *testing.T) {
	needRoot(t)
	for _, mask := range []int{0o022, 0o077, 0, 0o137} {
		for _, group := range []uint32{0, 1234} {
			t.Run(fmt.Sprintf("umask %03o, group %d", mask, group), func(t *testing.T) {
				d, path := openTemp(t)
				require.NoError(t, os.Chown(path, 0, int(group)))
				require.NoError(t, unix.Chmod(path, 0o2755)) // group for new objects
				before := unix.Umask(mask)
				defer unix.Umask(before)
				m := NewMaker(ApplyOptions{})
				for i, mode := range []uint32{0o666, 0o644, 0o6755, 0, 0o777, 0o444, 0o1600, 0o640} {
					for _, owner := range [][2]uint32{{0, 0}, {0, 1234}, {55, 66}} {
						n := &tree.Node{
							Name: fmt.Sprint(i, " ", owner), Type: tree.File, Mode: mode, UID: owner[0], GID: owner[1],
							ModTime: tree.Time{Sec: int64(i), Nsec: 9}, Access: &tree.Time{Sec: 99},
						}
						require.Empty(t, makeWith(t, m, d, n, "content"))
						require.Equal(t, n, nodeOf(t, d, n.Name))
						content, err := os.ReadFile(filepath.Join(path, n.Name))
						require.NoError(t, err)
						require.Equal(t, "content", string(content))
					}
				}
			})
		}
	}
}

func TestMakerReplacesNoOtherFile(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/file", "mine")
	require.NoError(t, os.Mkdir(path+"/dir", 0o700))
	require.NoError(t, os.Symlink("file", path+"/link"))
	require.NoError(t, os.Symlink("nowhere", path+"/dangling"))
	m := NewMaker(ApplyOptions{})
	for _, name := range []string{"file", "dir", "link", "dangling"} {
		before := nodeOf(t, d, name)
		made, ps, err := m.File(d, name, []byte("new"), owned(name, tree.File, 0o644))
		require.ErrorIs(t, err, os.ErrExist, name)
		require.False(t, made, name)
		require.Empty(t, ps)
		_, err = d.CreateFile(name)
		require.ErrorIs(t, err, os.ErrExist, name)
		after := nodeOf(t, d, name)
		before.Access, after.Access = nil, nil // readlink changes the access time
		require.Equal(t, before, after)
	}
	content, err := os.ReadFile(path + "/file")
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	require.NoFileExists(t, path+"/nowhere")
	made, _, err := m.File(d, "../out", nil, owned("out", tree.File, 0o644))
	require.ErrorIs(t, err, ErrBadName)
	require.False(t, made)
}

func TestMoveNew(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/old", "old")
	write(t, path+"/there", "there")
	require.NoError(t, os.Symlink("nowhere", path+"/dangling"))
	for _, name := range []string{"there", "dangling"} {
		require.ErrorIs(t, d.MoveNew(d, "old", name), os.ErrExist)
		require.ErrorIs(t, d.moveChecked(d, "old", name), os.ErrExist)
	}
	require.ErrorIs(t, d.MoveNew(d, "gone", "new"), ErrVanished)
	require.ErrorIs(t, d.MoveNew(d, "old", "../new"), ErrBadName)
	require.NoError(t, d.moveChecked(d, "old", "older"))
	require.NoError(t, d.MoveNew(d, "older", "new"))
	for name, want := range map[string]string{"new": "old", "there": "there"} {
		content, err := os.ReadFile(path + "/" + name)
		require.NoError(t, err)
		require.Equal(t, want, string(content))
	}
	require.NoFileExists(t, path+"/old")
}

func TestMakerReportsWhatItCannotSet(t *testing.T) {
	if !asNobody(t) {
		return
	}
	d, _ := openTemp(t)
	n := owned("file", tree.File, 0o4755)
	n.UID, n.GID = 0, 0
	n.Xattrs = []tree.Xattr{{Name: "trusted.x", Value: []byte("x")}}
	made, ps, err := NewMaker(ApplyOptions{}).File(d, "file", []byte("content"), n)
	require.NoError(t, err)
	require.True(t, made)
	var what []string
	for _, p := range ps {
		what = append(what, p.What)
	}
	require.Equal(t, []string{"owner", "xattr trusted.x", "mode"}, what)
	got := nodeOf(t, d, "file")
	require.EqualValues(t, 0o755, got.Mode, "setuid would lend the rights of another user")
	require.Equal(t, n.ModTime, got.ModTime)
}

// A directory that gives its entries anything is not plain.
func TestPlain(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"default ACL": func(path string) error {
			return unix.Setxattr(path, "system.posix_acl_default", posixACL(1234), 0)
		},
		"attribute": func(path string) error { return unix.Setxattr(path, "user.x", []byte("x"), 0) },
		"flag": func(path string) error {
			d, err := OpenDir(path)
			if err != nil {
				return err
			}
			defer d.Release()
			return changeFlags(d.fd, flagNoDump, flagNoDump)
		},
		"owner": func(path string) error { return os.Chown(path, nobody, nobody) },
	} {
		t.Run(name, func(t *testing.T) {
			d, path := openTemp(t)
			require.True(t, d.Plain())
			if err := spoil(path); err != nil {
				t.Skipf("cannot be had here: %v", err)
			}
			require.False(t, d.Plain())
		})
	}
}

// Under a limit, a larger file is written in pieces.
func TestMakerIsCutInsideAWindow(t *testing.T) {
	path := t.TempDir()
	content := bytes.Repeat([]byte("tide"), 75<<10)
	synctest.Test(t, func(t *testing.T) {
		d, gate := gated(t, t.Context(), path, iopolicy.Throttle)
		defer foreground(t, gate)()
		m := NewMaker(ApplyOptions{})
		for name, c := range map[string]struct {
			size int
			ops  uint64
		}{"small": {100 << 10, 1}, "empty": {0, 1}, "large": {len(content), 5}} { // create, three pieces, metadata
			before := gate.Stats()
			_, ps, err := m.File(d, name, content[:c.size], owned(name, tree.File, 0o644))
			require.NoError(t, err)
			require.Empty(t, ps)
			after := gate.Stats()
			require.Equal(t, c.ops, after.Operations-before.Operations, name)
			require.EqualValues(t, c.size, after.Moved.Written-before.Moved.Written, name)
		}
	})
	got, err := os.ReadFile(path + "/large")
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
}

// A new file takes five calls: create, write, set times, stat, close.
func TestCallsOfNewFiles(t *testing.T) {
	testkit.Slow(t)
	const role, files = "TIDEMARK_LOCALFS_TEST_FILES", 1000
	if count, err := strconv.Atoi(os.Getenv(role)); err == nil {
		d, _ := openTemp(t)
		m := NewMaker(ApplyOptions{})
		for i := range count {
			_, ps, err := m.File(d, strconv.Itoa(i), []byte("content"), owned("", tree.File, 0o644))
			require.NoError(t, err)
			require.Empty(t, ps)
		}
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("counts with strace: %v", err)
	}
	calls := func(count int) (total int) {
		out := filepath.Join(t.TempDir(), "calls")
		cmd := exec.Command(strace, "-f", "-o", out, "-e", "trace=%file,%desc", "/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Args[6], err = os.Executable()
		require.NoError(t, err)
		cmd.Env = append(os.Environ(), role+"="+strconv.Itoa(count))
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("strace may not trace here: %v\n%s", err, text)
		}
		log, err := os.ReadFile(out)
		require.NoError(t, err)
		for line := range strings.Lines(string(log)) {
			for _, call := range []string{" openat(", " pwrite64(", " utimensat(", " statx(", " close(", " fch",
				" ftruncate(", "xattr"} {
				if strings.Contains(line, call) && !strings.Contains(line, "resumed>") {
					total++
					break
				}
			}
		}
		return total
	}
	perFile := float64(calls(files)-calls(0)) / files
	t.Logf("%.3f calls a file", perFile)
	require.InDelta(t, 5, perFile, 0.05)
}

func TestAllocationsOfNewFiles(t *testing.T) {
	d, _ := openTemp(t)
	m := NewMaker(ApplyOptions{})
	n := owned("", tree.File, 0o644)
	names := make([]string, 400)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	next, content := 0, []byte("content")
	require.LessOrEqual(t, testing.AllocsPerRun(len(names)-1, func() {
		if _, _, err := m.File(d, names[next], content, n); err != nil {
			t.Fatal(err)
		}
		next++
	}), 1.0, "the writer; everything else is on the stack")
}
