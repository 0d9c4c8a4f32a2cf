//go:build linux || darwin

package shared

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"golang.org/x/sys/unix"
)

func path(dir string) string { return filepath.Join(dir, fileName("sda@12")) }

func inode(dir string) string {
	info, err := os.Stat(path(dir))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino)
}

func TestFutureFreezesNoProcess(t *testing.T) {
	dir, w := folder(t), newWatch()
	a := attach(t, dir, Options{Clock: w.read})
	r := a.now.Load().region
	_, now := w.read()
	for _, lie := range []int64{now + int64(time.Hour), now + slack + 1, -1, -1 << 63, 1<<63 - 1, 0} {
		for u := range r.edge {
			r.edge[u].Store(lie)
			r.start[u].Store(lie)
			r.want[u].Store(lie)
		}
		a.clock.horizon.Store(0)
		r.turn.Store(lie<<2 | 3)
		require.Zero(t, a.Seen(), "lie %d", lie)
		ok, _ := a.Free(2, w.now(), 85*ms)
		require.True(t, ok, "lie %d", lie)
		a.Publish(2, w.now()) // a true time takes the place of a lie, though that is greater
		require.True(t, a.Seen().Newest[2].Equal(w.now()))
		ok, _ = a.Claim(2, w.now(), 85*ms)
		require.True(t, ok)
		ok, next := a.Claim(2, w.now(), 85*ms)
		require.False(t, ok)
		require.Equal(t, 85*ms, next.Sub(w.now()))
		r.turn.Store(0)
	}
	// A little ahead is another processor's clock.
	r.edge[1].Store(now + slack)
	require.False(t, a.Seen().Newest[1].IsZero())
	// Impossible times of the caller are not published.
	a.Publish(3, w.now().Add(time.Hour))
	require.Zero(t, a.Seen().Newest[3])
	ok, _ := a.Claim(3, w.now().Add(time.Hour), 200*ms)
	require.True(t, ok)
	ok, next := a.Claim(3, w.now(), 200*ms)
	require.False(t, ok)
	require.Equal(t, 200*ms, next.Sub(w.now()))
}

func TestUnsafePlacesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, dir, file string)
		says string
	}{
		{"directory that others may read", func(t *testing.T, dir, _ string) { require.NoError(t, os.Chmod(dir, 0o750)) },
			"chmod 0700"},
		{"file that others may write", func(t *testing.T, _, file string) { require.NoError(t, os.Chmod(file, 0o622)) },
			"chmod 0600"},
		{"link for a directory", func(t *testing.T, dir, _ string) {
			require.NoError(t, os.Rename(dir, dir+".real"))
			require.NoError(t, os.Symlink(dir+".real", dir))
		}, "remove it"},
		{"file for a directory", func(t *testing.T, dir, _ string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		}, "remove it"},
		{"link for a file", func(t *testing.T, dir, file string) {
			require.NoError(t, os.Rename(file, dir+"/real"))
			require.NoError(t, os.Symlink("real", file))
		}, "remove it"},
		{"second name", func(t *testing.T, dir, file string) { require.NoError(t, os.Link(file, dir+"/other")) },
			"remove it"},
		{"directory for a file", func(t *testing.T, _, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		}, "remove it"},
		{"pipe", func(t *testing.T, _, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, syscall.Mkfifo(file, 0o600))
		}, "remove it"},
		{"socket", func(t *testing.T, _, file string) {
			require.NoError(t, os.Remove(file))
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			at, err := os.Getwd()
			require.NoError(t, err)
			defer os.Chdir(at)
			require.NoError(t, os.Chdir(filepath.Dir(file))) // names of sockets are short
			require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Base(file)}))
		}, "remove it"},
		{"directory of another user", func(t *testing.T, dir, _ string) { disown(t, dir) }, "belongs to user 65534"},
		{"file of another user", func(t *testing.T, _, file string) { disown(t, file) }, "belongs to user 65534"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			attach(t, dir, Options{})
			c.do(t, dir, path(dir))
			_, err := Attach(dir, "sda@12", Options{})
			require.ErrorIs(t, err, ErrUnsafe)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := Attach(filepath.Join(t.TempDir(), "no", "such"), "sda@12", Options{})
	require.ErrorContains(t, err, "XDG_RUNTIME_DIR")
}

func disown(t *testing.T, path string) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	require.NoError(t, os.Chown(path, 65534, 65534))
}

func TestModesDoNotDependOnTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o177} {
		old := syscall.Umask(mask)
		dir := folder(t)
		s, err := Attach(dir, "sda@12", Options{})
		syscall.Umask(old)
		if mask == 0o177 { // then the directory cannot be used, and the error says so
			require.ErrorIs(t, err, ErrUnsafe)
			continue
		}
		require.NoError(t, err)
		s.Close()
		info, err := os.Stat(path(dir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

func TestWhatIsNotUnderstoodIsReplaced(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"another boot":    func(b []byte) []byte { other := header("sda@12", "another"); copy(b, other[:]); return b },
		"another key":     func(b []byte) []byte { other := header("sdb@13", "x"); copy(b[56:], other[56:]); return b },
		"another version": func(b []byte) []byte { b[8]++; return b },
		"another size":    func(b []byte) []byte { b[16]++; return b },
		"no magic":        func(b []byte) []byte { b[0] = 'X'; return b },
		"too short":       func(b []byte) []byte { return b[:len(b)-1] },
		"too long":        func(b []byte) []byte { return append(b, 0) },
		"empty":           func([]byte) []byte { return nil },
		"header only":     func(b []byte) []byte { return b[:headSize] },
	} {
		t.Run(name, func(t *testing.T) {
			dir, w := folder(t), newWatch()
			old := attach(t, dir, Options{Clock: w.read})
			old.Enter(2)
			old.Publish(2, w.now())
			content, err := os.ReadFile(path(dir))
			require.NoError(t, err)
			require.NoError(t, os.Remove(path(dir)))
			require.NoError(t, os.WriteFile(path(dir), spoil(content), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".new-"+fileName("sda@12")), []byte("left by the dead"), 0o600))

			s := attach(t, dir, Options{Clock: w.read})
			require.Zero(t, s.Seen(), "nothing of what is not understood is believed")
			fresh, err := os.ReadFile(path(dir))
			require.NoError(t, err)
			require.Len(t, fresh, fileSize)
			names, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, names, 1, "no temporary file is left")

			// The holder of the old one moves to the new one, with its operations in flight.
			w.pass(2 * time.Second)
			old.Publish(2, w.now())
			require.True(t, s.Seen().Newest[2].Equal(w.now()))
			require.True(t, s.Seen().Inflight[2])
			old.Leave(2)
			require.False(t, s.Seen().Inflight[2])
		})
	}
}

func TestAnnouncementsMoveAlong(t *testing.T) {
	dir, w := folder(t), newWatch()
	e, err := Announce(dir, "sda@12", os.Getpid(), Options{Clock: w.read, Policy: iopolicy.Utility})
	require.NoError(t, err)
	require.NoError(t, os.Remove(path(dir)))
	other := attach(t, dir, Options{Clock: w.read})
	require.Len(t, other.Processes(), 1)
	w.pass(2 * time.Second)
	e.Claim(1, w.now(), ms)
	require.Len(t, other.Processes(), 2)
	e.Close()
	require.Len(t, other.Processes(), 1)
}

// TestAllComeAtOnce has many processes and goroutines make the same file.
func TestAllComeAtOnce(t *testing.T) {
	dir := folder(t)
	var procs []*actor
	for range 4 {
		procs = append(procs, start(t, "join", dir))
	}
	var all sync.WaitGroup
	states := make([]*State, 16)
	for i := range states {
		all.Go(func() { states[i], _ = Attach(dir, "sda@12", Options{}) })
	}
	all.Wait()
	for _, a := range procs {
		require.Equal(t, "ready", a.line(t))
		fmt.Fprintln(a.in, "go")
		require.Equal(t, inode(dir), a.line(t))
	}
	for _, s := range states {
		require.NotNil(t, s)
		require.Len(t, s.Processes(), 20)
	}
	for _, s := range states {
		s.Close()
	}
}

// TestWords hammers one file from many goroutines for the race detector, while the file is replaced under them.
func TestWords(t *testing.T) {
	dir := folder(t)
	a, b := attach(t, dir, Options{}), attach(t, dir, Options{})
	var all sync.WaitGroup
	for _, s := range []*State{a, b} {
		for tier := iopolicy.Tier(0); tier < iopolicy.Tiers; tier++ {
			all.Go(func() {
				for i := range 2000 {
					s.Enter(tier)
					s.Publish(tier, time.Now())
					s.Seen()
					s.Claim(tier, time.Now(), time.Microsecond)
					s.AddElsewhere(iopolicy.Bytes{Read: 1})
					s.SetPolicy(iopolicy.Policy(tier))
					if i%500 == 0 {
						s.Processes()
						_ = os.Remove(path(dir))
						s.refreshed.Store(0)
						runtime.GC() // unmaps what others may still use
					}
					s.Leave(tier)
				}
			})
		}
	}
	all.Wait()
	for _, s := range []*State{a, b} {
		s.refreshed.Store(0)
		s.Publish(0, time.Now())
		require.NoError(t, s.Err())
	}
	for _, p := range a.Processes() {
		require.Zero(t, p.Inflight)
		require.Equal(t, uint64(8000), p.Elsewhere.Read)
	}
	require.Len(t, a.Processes(), 2)
}

func TestLockedDirectory(t *testing.T) {
	dir := folder(t)
	s := attach(t, dir, Options{})
	fd, err := unix.Open(dir, unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Flock(fd, unix.LOCK_EX))
	other := attach(t, dir, Options{}) // a file that is there needs no lock
	require.Len(t, other.Processes(), 2)
	require.NoError(t, os.Remove(path(dir)))
	_, err = Attach(dir, "sda@12", Options{})
	require.ErrorIs(t, err, ErrBusy)
	s.refreshed.Store(0)
	s.Publish(1, time.Now())
	require.ErrorIs(t, s.Err(), ErrBusy)
	require.False(t, s.Seen().Newest[1].IsZero(), "alone, it still knows what it did itself")
	require.NoError(t, unix.Flock(fd, unix.LOCK_UN))
	s.refreshed.Store(0)
	s.Publish(1, time.Now())
	require.NoError(t, s.Err())
}

func TestRuntimeDir(t *testing.T) {
	ownSlot := t.TempDir()
	uid := os.Geteuid()
	env := func(pairs ...string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1], true
				}
			}
			return "", false
		}
	}
	dir, err := runtimeDir(env("XDG_RUNTIME_DIR", ownSlot), uid, "")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(ownSlot, "tidemark"), dir)
	dir, err = runtimeDir(env("XDG_RUNTIME_DIR", "/run/user/0"), 0, "")
	require.NoError(t, err)
	require.Equal(t, "/run/tidemark", dir)
	for _, bad := range []string{"relative", "", filepath.Join(ownSlot, "missing")} {
		_, err = runtimeDir(env("XDG_RUNTIME_DIR", bad), 54321, "")
		require.ErrorIs(t, err, ErrNoRuntimeDir, "%q", bad)
		require.ErrorContains(t, err, "XDG_RUNTIME_DIR")
		dir, err = runtimeDir(env("XDG_RUNTIME_DIR", bad), 0, "")
		require.NoError(t, err)
		require.Equal(t, "/run/tidemark", dir)
	}
	_, err = runtimeDir(env("XDG_RUNTIME_DIR", ownSlot), 54321, "") // sudo's
	require.ErrorIs(t, err, ErrNoRuntimeDir)
	for _, here := range []string{"", ownSlot} { // the service of macOS and a command by hand must meet
		dir, err = runtimeDir(env("TMPDIR", here), 0, "TMPDIR")
		require.NoError(t, err)
		require.Equal(t, "/var/run/tidemark", dir)
	}
	if uid != 0 {
		dir, err = runtimeDir(env("TMPDIR", ownSlot), uid, "TMPDIR")
		require.NoError(t, err)
		require.Equal(t, filepath.Join(ownSlot, "tidemark"), dir)
	}
	_, err = runtimeDir(env(), 54321, "TMPDIR")
	require.ErrorContains(t, err, "TMPDIR")
	if runtime.GOOS == "linux" {
		dir, err = RuntimeDir(env("XDG_RUNTIME_DIR", ownSlot))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(dir, ownSlot))
	}
}

func TestClockOfTheSystem(t *testing.T) {
	var c clock
	require.NoError(t, c.start(nil))
	before, err := monotonic()
	require.NoError(t, err)
	at := time.Now()
	after, err := monotonic()
	require.NoError(t, err)
	ns := c.of(at)
	require.GreaterOrEqual(t, ns, before-slack)
	require.LessOrEqual(t, ns, after+slack)
	require.True(t, c.time(ns).Equal(at))
	require.Zero(t, c.time(ns).Sub(at))
	require.True(t, c.past(ns))
	require.False(t, c.past(0))
	require.False(t, c.past(c.now()+int64(time.Hour)))
}

// TestNothingIsKept looks for files that stay open after the last use.
func TestNothingIsKept(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts its open files in /proc")
	}
	dir := folder(t)
	open := func() (n int) {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, e := range all {
			to, _ := os.Readlink("/proc/self/fd/" + e.Name())
			if strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	for range 100 {
		s, err := Attach(dir, "sda@12", Options{})
		require.NoError(t, err)
		s.Publish(1, time.Now())
		s.Close()
	}
	await(t, func() bool { runtime.GC(); return open() == 0 })
}
