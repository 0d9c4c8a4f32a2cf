package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
)

// daemon serves a folder as a file system of FUSE, which has no ID of its own, as sshfs and others have none.
type daemon struct {
	t     *testing.T
	point string
	proc  *exec.Cmd
	ended chan struct{}
}

// serve mounts folder at point through FUSE. It skips where that is not possible.
func serve(t *testing.T, folder, point string) *daemon {
	t.Helper()
	path, err := exec.LookPath("bindfs")
	if err != nil {
		t.Skip("needs bindfs")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	d := &daemon{t, point, exec.Command(path, "-f", folder, point), make(chan struct{})}
	empty := mounted(t, point)
	require.NoError(t, d.proc.Start())
	go func() {
		_ = d.proc.Wait() // killed or unmounted
		close(d.ended)
	}()
	for begin := time.Now(); mounted(t, point) == empty; time.Sleep(time.Millisecond) {
		select {
		case <-d.ended:
			t.Skip("needs FUSE: bindfs ended at once")
		default:
			require.Less(t, time.Since(begin), 20*time.Second, "bindfs mounts")
		}
	}
	t.Cleanup(d.unmount)
	return d
}

// mounted is the number of the device at a folder.
func mounted(t *testing.T, point string) uint64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(point, &st))
	return st.Dev
}

// kill ends the daemon; the mount stays and is dead.
func (d *daemon) kill() {
	_ = d.proc.Process.Kill() // it may have ended
	<-d.ended
}

// unmount takes the mount away, while files may be open.
func (d *daemon) unmount() {
	_ = unix.Unmount(d.point, unix.MNT_DETACH) // it may be gone
	d.kill()
}

// A file system of FUSE that goes away in the middle, and comes back.
func TestFUSEGoesAway(t *testing.T) {
	real, copied, point := t.TempDir(), t.TempDir(), t.TempDir()
	d := serve(t, real, point)
	st := ready(t, point)
	out, err := exec.Command("cp", "-a", real+"/.", copied).CombinedOutput()
	require.NoError(t, err, "%s", out)

	// Its daemon dies: every operation fails with a temporary error.
	d.kill()
	err = st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorIs(t, err, store.ErrTemporary)
	_, err = st.Stat(t.Context(), pack(1))
	require.ErrorIs(t, err, store.ErrGone)
	d.unmount()

	// The empty folder beneath gets nothing.
	err = st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.NotErrorIs(t, err, store.ErrTemporary)
	require.Empty(t, entries(t, point))

	// A copy of the repository is not the repository, though it looks like it to the byte.
	before := entries(t, copied)
	d = serve(t, copied, point)
	err = st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "another file system is mounted there")
	require.Equal(t, before, entries(t, copied))
	d.unmount()

	// The next run uses the same file system again.
	serve(t, real, point)
	st, err = local.Open(point, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
	require.FileExists(t, filepath.Join(real, pack(1).Path()))
	require.FileExists(t, filepath.Join(real, pack(2).Path()))
}

// A daemon that stops in the middle of writing: nothing is acknowledged that is not there.
func TestFUSEDaemonDiesWhileFilesAreWritten(t *testing.T) {
	for _, when := range []int{1, 4, 9} {
		real, point := t.TempDir(), t.TempDir()
		d := serve(t, real, point)
		st := ready(t, point)
		reached, ended := make(chan struct{}), make(chan int, 1)
		go func() {
			for i := 2; ; i++ {
				if st.Put(t.Context(), pack(i), make([]byte, 300_000)) != nil {
					ended <- i - 1
					return
				}
				if i == when+1 {
					close(reached)
				}
			}
		}()
		<-reached
		d.kill()
		last := <-ended
		d.unmount()
		again, err := local.Open(real, nil)
		require.NoError(t, err)
		for i := 2; i <= last; i++ {
			info, err := again.Stat(t.Context(), pack(i))
			require.NoError(t, err)
			require.EqualValues(t, 300_000, info.Size)
		}
	}
}
