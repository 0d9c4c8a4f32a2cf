package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Leases are flushed only where somebody could outlive them; everything else always is, file and folder.
func TestWhatIsFlushed(t *testing.T) {
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.Default()})
	root := filepath.Join(t.TempDir(), "repo")
	st, err := local.Create(root, gate.Pass(iopolicy.NewClient(iopolicy.Important)))
	require.NoError(t, err)
	flushes := func(do func() error) int {
		_, before := gate.Syncs()
		require.NoError(t, do())
		_, after := gate.Syncs()
		return int(after - before)
	}
	for kind := range store.Kinds() {
		name := store.Name{Kind: kind, ID: "ab"}
		if kind == store.Config {
			name.ID = ""
		}
		put := func() error { return st.Put(t.Context(), name, []byte("x")) }
		require.NoError(t, put()) // makes the folders
		wantPut, wantDelete := 2, 1
		if kind == store.Pack {
			wantDelete = 0
		}
		if kind == store.Lease && local.EndsWithUs(root) {
			wantPut, wantDelete = 0, 0
		}
		require.Equal(t, wantPut, flushes(put), kind)
		back := make([]byte, 1)
		require.NoError(t, st.Get(t.Context(), name, 0, back))
		require.Equal(t, "x", string(back))
		require.Equal(t, wantDelete, flushes(func() error { return st.Delete(t.Context(), name) }), kind)
	}
}

// A file system that a server or a program makes keeps its leases over a crash of that.
func TestLeasesOfFUSEAreFlushed(t *testing.T) {
	real, point := t.TempDir(), t.TempDir()
	serve(t, real, point)
	require.False(t, local.EndsWithUs(point))
	require.False(t, local.EndsWithUs("/proc"))
	require.False(t, local.EndsWithUs(filepath.Join(point, "none")))
	if _, err := os.Stat("/dev/shm"); err == nil {
		require.True(t, local.EndsWithUs("/dev/shm"))
	}
}
