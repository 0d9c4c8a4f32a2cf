package restore

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// foreign is an object of root outside the restored directory, held open so that it can be compared at the end.
type foreign struct {
	path string
	pin  int
	was  unix.Stat_t
}

const (
	foreignText = "belongs to root"
	swapped     = 60 // objects of each kind
)

// makeForeign makes an object of root of the given kind.
func makeForeign(kind, path string) (f foreign, err error) {
	_ = os.RemoveAll(path)
	switch kind {
	case "symlink", "new symlink":
		err = os.Symlink("/root/elsewhere", path)
	case "fifo", "new fifo":
		err = unix.Mkfifo(path, 0o600)
	case "directory":
		if err = os.Mkdir(path, 0o700); err == nil {
			err = os.WriteFile(filepath.Join(path, "inside"), []byte(foreignText), 0o600)
		}
	default:
		err = os.WriteFile(path, []byte(foreignText), 0o600)
	}
	if err != nil {
		return f, err
	}
	old := []unix.Timespec{{Sec: 1e9}, {Sec: 1e9}}
	if err = unix.UtimesNanoAt(unix.AT_FDCWD, path, old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return f, err
	}
	f.path = path
	if f.pin, err = unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return f, err
	}
	return f, unix.Fstat(f.pin, &f.was)
}

// unchanged compares a foreign object with its original state.
func (f *foreign) unchanged(t *testing.T) {
	t.Helper()
	var now unix.Stat_t
	require.NoError(t, unix.Fstat(f.pin, &now))
	what := func(st *unix.Stat_t) string {
		return fmt.Sprintf("%d:%d mode %o size %d modified %d", st.Uid, st.Gid, st.Mode, st.Size, st.Mtim.Sec)
	}
	if now.Nlink > 0 { // a directory that was emptied and removed has another size and time
		require.Equal(t, what(&f.was), what(&now), f.path)
	}
	require.Equal(t, [2]uint32{0, 0}, [2]uint32{now.Uid, now.Gid}, f.path)
	require.Equal(t, f.was.Mode, now.Mode, f.path)
	if now.Mode&unix.S_IFMT == unix.S_IFREG {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", f.pin))
		require.NoError(t, err)
		require.Equal(t, foreignText, string(text))
	}
}

// swapper exchanges objects of a directory with those of root until stop is set, as the owner of the directory can.
func swapper(kind, dir, out, name string, stop *atomic.Bool) (all []foreign, swaps int, err error) {
	current := make([]foreign, swapped)
	for i := range current {
		if current[i], err = makeForeign(kind, filepath.Join(out, fmt.Sprint(i))); err != nil {
			return nil, 0, err
		}
		all = append(all, current[i])
	}
	for !stop.Load() {
		for i := range current {
			f := &current[i]
			var st unix.Stat_t
			if err := unix.Fstat(f.pin, &st); err != nil {
				return all, swaps, err
			}
			if st.Nlink == 0 { // the restore has put something in its place
				fresh, err := makeForeign(kind, f.path)
				if err != nil {
					return all, swaps, err
				}
				*f, all = fresh, append(all, fresh)
			}
			at := filepath.Join(dir, fmt.Sprintf(name, i))
			if unix.Renameat2(unix.AT_FDCWD, f.path, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE) == nil {
				swaps++
			}
		}
	}
	return all, swaps, nil
}

// TestRestoreGivesAwayNothingOfRoot: root restores into the directory of another user, and that user puts objects of
// root in the place of compared ones. None of them gets the owner, the mode, the times or the content of the snapshot,
// unless it was compared and replaced as a whole.
func TestRestoreGivesAwayNothingOfRoot(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	testkit.RequireRoot(t)
	for _, kind := range []string{"file", "large file", "symlink", "fifo", "new symlink", "new fifo",
		"directory", "link"} {
		t.Run(kind, func(t *testing.T) { swapWhileRestoring(t, kind) })
	}
}

func swapWhileRestoring(t *testing.T, kind string) {
	dir := testkit.RamDir(t)
	src, dst, out := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "out")
	theirs := func(path string) { require.NoError(t, os.Lchown(path, kit.Nobody, kit.Nobody)) }
	fill := func(base string, mode uint32) {
		require.NoError(t, os.MkdirAll(base, 0o777))
		theirs(base)
		for i := range swapped {
			at := filepath.Join(base, fmt.Sprintf("o%02d", i))
			switch kind {
			case "symlink", "new symlink":
				require.NoError(t, os.Symlink("target", at))
			case "fifo", "new fifo":
				require.NoError(t, unix.Mkfifo(at, mode))
			case "directory":
				require.NoError(t, os.Mkdir(at, 0o755))
			case "large file":
				require.NoError(t, os.WriteFile(at, testkit.Noise(uint64(i), 300_000), os.FileMode(mode)))
			default:
				require.NoError(t, os.WriteFile(at, []byte("theirs"), os.FileMode(mode)))
			}
			theirs(at)
			if kind == "link" {
				require.NoError(t, os.Link(at, filepath.Join(base, fmt.Sprintf("z%02d", i))))
			}
		}
	}
	fill(src, 0o644)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	long := time.Duration(testkit.Rounds(100, 250, 1000)) * time.Millisecond
	for end := time.Now().Add(long); time.Now().Before(end); {
		require.NoError(t, os.RemoveAll(dst))
		require.NoError(t, os.RemoveAll(out))
		require.NoError(t, os.Mkdir(out, 0o700))
		fill(dst, 0o640) // the mode differs, so there is something to be changed
		for i := range swapped {
			at := filepath.Join(dst, fmt.Sprintf("o%02d", i))
			switch kind {
			case "symlink":
				require.NoError(t, os.Lchown(at, kit.Nobody, 7)) // it has no mode
			case "new symlink", "new fifo", "directory":
				require.NoError(t, os.Remove(at)) // it has to be made
			case "link":
				require.NoError(t, os.Remove(filepath.Join(dst, fmt.Sprintf("z%02d", i))))
			}
		}
		var stop atomic.Bool
		var all []foreign
		var swaps int
		var swapErr error
		done := make(chan struct{})
		go func() {
			defer close(done)
			all, swaps, swapErr = swapper(kind, dst, out, "o%02d", &stop)
		}()
		_, err := e.Restore(src, restore.Target{Path: dst, Overwrite: restore.Always})
		stop.Store(true)
		<-done
		require.NoError(t, err)
		require.NoError(t, swapErr)
		require.NotZero(t, swaps+1)
		for i := range all {
			all[i].unchanged(t)
			require.NoError(t, unix.Close(all[i].pin))
		}
		for i := range swapped { // of a link, no further name
			var st unix.Stat_t
			if kind == "link" && unix.Lstat(filepath.Join(dst, fmt.Sprintf("z%02d", i)), &st) == nil {
				require.Equal(t, uint32(kit.Nobody), st.Uid)
			}
		}
	}
}
