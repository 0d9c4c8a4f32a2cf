package mounted

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/mount"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/view"
)

// mounted is a mount of a test.
type mounted struct {
	dir  string
	end  context.CancelCauseFunc
	done chan error

	close func() error // the repository

	mu    sync.Mutex
	lines []string
}

// reported returns the lines that the mount printed.
func (m *mounted) reported() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.lines, "\n")
}

// mountAll mounts the repository, until the test ends.
func mountAll(t *testing.T, e *kit.Engine) *mounted {
	t.Helper()
	return mountFor(t, e, false)
}

func mountFor(t *testing.T, e *kit.Engine, others bool) *mounted {
	t.Helper()
	return mountRoot(t, e, others, snapshotsAt(time.Now))
}

// snapshotsAt returns the root of all snapshots. Their listing ages by the clock now.
func snapshotsAt(now func() time.Time) func(*repo.Repository) view.Entry {
	return func(r *repo.Repository) view.Entry {
		return view.NewRepository(r.LoadBlob, r.Snapshots, now).Root()
	}
}

// mountRoot mounts what root returns.
func mountRoot(t *testing.T, e *kit.Engine, others bool, root func(*repo.Repository) view.Entry) *mounted {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root and /dev/fuse")
		}
		t.Skip("needs root and /dev/fuse")
	}
	r, err := repo.Open(t.Context(), e.Store, e.Open)
	require.NoError(t, err)
	m := &mounted{dir: t.TempDir(), done: make(chan error, 1), close: sync.OnceValue(r.Close)}
	top := root(r)
	ctx, end := context.WithCancelCause(context.Background())
	m.end = end
	ready := make(chan struct{})
	go func() {
		m.done <- mount.Serve(ctx, m.dir, top, r.LoadBlob, mount.Options{
			AllowOther: others, Source: "test", Notify: func(text string) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.lines = append(m.lines, text)
			},
		}, func() { close(ready) })
	}()
	t.Cleanup(func() {
		end(nil)
		if err := <-m.done; err != nil {
			_ = unix.Unmount(m.dir, unix.MNT_DETACH)
			t.Error(err)
		}
		require.NoError(t, m.close())
	})
	select {
	case <-ready:
		poll(t, m.dir)
	case err := <-m.done:
		m.done <- err
		require.NoError(t, err)
	}
	return m
}

// poll makes the kernel learn that files of a mount are not polled. Otherwise os.Open of this process, which also
// serves the mount, would ask that with a processor of the runtime held, and might wait for itself.
func poll(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(filepath.Join(dir, ".go-fuse-epoll-hack"), unix.O_RDONLY, 0) // the library has such a file
	require.NoError(t, err)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
}

// latest is where the source is in the newest snapshot.
func (m *mounted) latest(src string) string { return filepath.Join(m.dir, "latest", src) }

// saved makes a repository with a backup of a folder.
func saved(t *testing.T, src string) *kit.Engine {
	t.Helper()
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, totals.Failures)
	return e
}
