package mounted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// slowly delays each operation on a store by some milliseconds, as a server does.
func slowly(context.Context, meter.Operation) func(meter.Result) {
	time.Sleep(4 * time.Millisecond)
	return func(meter.Result) {}
}

// TestSignalsFailNoCall: a signal that a program handles, such as the one by which Go's runtime stops a thread, makes
// no call on the mount fail, as it does on no disk.
func TestSignalsFailNoCall(t *testing.T) {
	src := filepath.Join(testkit.TempDir(t), "src")
	const folders = 40
	for i := range folders {
		dir := filepath.Join(src, fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), testkit.Noise(uint64(i), 5000), 0o600))
	}
	e := saved(t, src)
	e.Store = meter.Wrap(e.Store, slowly)
	m := mountAll(t, e)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, thread := os.Getpid(), unix.Gettid()
	var sent atomic.Int64
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				_ = unix.Tgkill(pid, thread, syscall.SIGURG)
				sent.Add(1)
			}
		}
	}()
	defer func() {
		close(ended)
		<-stopped
	}()
	for i := range folders {
		path := filepath.Join(m.latest(src), fmt.Sprint(i), "file")
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		require.NoError(t, err, path)
		p := make([]byte, 6000)
		n, err := unix.Read(fd, p)
		require.NoError(t, err, path)
		require.Equal(t, testkit.Noise(uint64(i), 5000), p[:n])
		require.NoError(t, unix.Close(fd))
	}
	require.Greater(t, sent.Load(), int64(10))
	require.Empty(t, m.reported())
}
