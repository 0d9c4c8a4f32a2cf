package restore

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// A goroutine that waits at the gate for a directory does not block access to open ones. After it is opened, all
// goroutines share it.
func TestHandlesWaitWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		for _, name := range []string{"open", "closed"} {
			require.NoError(t, os.Mkdir(filepath.Join(path, name), 0o700))
		}
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
		ctx, cancel := context.WithCancel(t.Context())
		base, err := localfs.IOContext{Ctx: ctx, Pass: pass}.OpenDir(path)
		require.NoError(t, err)
		h := &handles{base: base, most: minHandles}
		defer h.close()
		root := &dir{path: "/"}
		ready := &dir{parent: root, node: tree.Node{Name: "open"}, path: "/open"}
		closed := &dir{parent: root, node: tree.Node{Name: "closed"}, path: "/closed"}
		got, err := h.get(ready)
		require.NoError(t, err)
		got.Release()

		gate.Shut()
		opened := make(chan *localfs.Dir, 3)
		for range 2 {
			go func() {
				d, err := h.get(closed)
				if err == nil {
					opened <- d
				}
			}()
		}
		synctest.Wait()
		require.Empty(t, opened)
		got, err = h.get(ready)
		require.NoError(t, err, "it is open: no operation is needed")
		got.Release()

		gate.Open()
		one, two := <-opened, <-opened
		require.Same(t, one, two)
		one.Release()
		two.Release()

		gate.Shut()
		h.drop(closed)
		failed := make(chan error, 1)
		go func() { _, err := h.get(closed); failed <- err }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, localfs.ErrStopped)
		h.ungate()
		got, err = h.get(closed)
		require.NoError(t, err, "to tidy up, nothing is waited for")
		got.Release()
	})
}
