package sftp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestEachHandleIsClosed: after many operations at the same time, the server has no file of the repository open.
func TestEachHandleIsClosed(t *testing.T) {
	testkit.Slow(t)
	folder := t.TempDir()
	st := direct(t, folder)
	data := storetest.Pattern(100_000, 1)
	name := func(i int) store.Name { return store.Name{Kind: store.Pack, ID: fmt.Sprintf("%04x", 2*i)} }
	config := store.Name{Kind: store.Config}
	require.NoError(t, st.Put(t.Context(), config, data))
	for range 3 {
		var all errgroup.Group
		for i := range 100 {
			all.Go(func() error { return st.Put(t.Context(), name(i), data) })
			all.Go(func() error { return st.Get(t.Context(), config, 0, nil) })
		}
		require.NoError(t, all.Wait())
		all = errgroup.Group{}
		for _, err := range st.List(t.Context(), store.Pack) {
			require.NoError(t, err)
		}
		for i := range 100 {
			all.Go(func() error { return st.Get(t.Context(), name(i), 0, make([]byte, len(data))) })
		}
		require.NoError(t, all.Wait())
	}
	require.Eventually(t, func() bool {
		for _, server := range st.Groups() { // each server has a process group of its own
			fds := filepath.Join("/proc", strconv.Itoa(server), "fd")
			entries, err := os.ReadDir(fds)
			require.NoError(t, err)
			for _, e := range entries {
				if to, _ := os.Readlink(filepath.Join(fds, e.Name())); strings.HasPrefix(to, folder) {
					return false
				}
			}
		}
		return true
	}, 10*time.Second, 10*time.Millisecond, "a server has a file of the repository open")
}
