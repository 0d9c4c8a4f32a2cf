package control

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Other users are rejected even if directory and socket are open to all.
func TestOtherUsersAreNotHeard(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	dir := place(t)
	j := newJob(iopolicy.Important)
	begin(t, dir, j, usualLimits())
	r := only(t, dir)
	for _, open := range []string{filepath.Dir(dir), dir, r.path} {
		require.NoError(t, os.Chmod(open, 0o777))
	}
	got := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with this goroutine, and the other user with it
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			got <- errno
			return
		}
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.path, Net: "unix"})
		if err == nil {
			_, _ = conn.Write([]byte(`{"version":1,"request":"set-policy","policy":"throttle"}` + "\n"))
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		got <- err
	}()
	if err := <-got; !errors.Is(err, io.EOF) {
		require.ErrorIs(t, err, unix.ECONNRESET)
	}
	require.Empty(t, j.changes)
	require.NoError(t, os.Chmod(dir, 0o700))
	_, err := only(t, dir).SetPolicy(t.Context(), 1, 0)
	require.NoError(t, err)
}

// A program of another user reaches neither a job nor the service: not in a directory that is closed, and not if
// directory and socket are open to all.
func TestAProgramOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	const nobody = 65534
	dir := place(t)
	base := filepath.Dir(dir)
	client := filepath.Join(base, "client") // the folder of the test binary may be closed
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(client, program, 0o755))
	require.NoError(t, os.Chmod(base, 0o755))
	j := newJob(iopolicy.Important)
	begin(t, dir, j, usualLimits())
	orders := 0
	stop, err := ServeDaemon(t.Context(), dir, func(Command) (event.Daemon, error) {
		orders++
		return event.Daemon{}, nil
	})
	require.NoError(t, err)
	defer stop()
	for _, path := range []string{only(t, dir).path, filepath.Join(dir, daemonSocket)} {
		require.NoError(t, os.Chmod(dir, 0o700))
		ask := func() string {
			cmd := exec.Command(client)
			cmd.Dir = "/"
			cmd.Env = []string{"TIDEMARK_TEST_ASK=" + path}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out, err := cmd.Output()
			if errors.Is(err, os.ErrPermission) {
				t.Skip("needs a temporary folder that other users can enter")
			}
			require.NoError(t, err)
			return string(out)
		}
		require.Contains(t, ask(), "permission denied")
		require.NoError(t, os.Chmod(dir, 0o777))
		require.NoError(t, os.Chmod(path, 0o777))
		require.Regexp(t, "EOF|connection reset|broken pipe", ask())
	}
	require.Empty(t, j.changes)
	require.Zero(t, orders)
	require.NoError(t, os.Chmod(dir, 0o700))
}
