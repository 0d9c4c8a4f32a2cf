package control

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Other users are rejected even if directory and socket are open to all.
func TestOtherUsersAreNotHeard(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	dir := place(t)
	j := &job{}
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
