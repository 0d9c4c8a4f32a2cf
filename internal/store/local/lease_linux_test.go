package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Leases are flushed only where a writer could survive a crash. Everything else always is, file and folder.
func TestWhatIsFlushed(t *testing.T) {
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	root := filepath.Join(t.TempDir(), "repo")
	st, err := local.Create(root, gate.Pass(iopolicy.NewClient(iopolicy.Important)))
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("x")))
	st, err = local.Open(root, gate.Pass(iopolicy.NewClient(iopolicy.Important)))
	require.NoError(t, err)
	flushes := func(do func() error) int {
		before := gate.Stats().Syncs
		require.NoError(t, do())
		after := gate.Stats().Syncs
		return int(after - before)
	}
	for _, kind := range []store.Kind{store.Lease, store.Pack, store.Snapshot, store.Index, store.Key, store.Mark,
		store.Config} {
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
		if kind == store.Lease && st.SkipsFlush(store.Lease) {
			wantPut, wantDelete = 0, 0
		}
		require.Equal(t, wantPut, flushes(put), kind)
		back := make([]byte, 1)
		require.NoError(t, st.Get(t.Context(), name, 0, back))
		require.Equal(t, "x", string(back))
		require.Equal(t, wantDelete, flushes(func() error { return st.Delete(t.Context(), name) }), kind)
	}
}

// On a file system that a server or a program makes leases outlast a crash of that.
func TestWhereLeasesAreFlushed(t *testing.T) {
	at := func(root string) *local.Store {
		t.Helper()
		st, err := local.Create(root, nil)
		require.NoError(t, err)
		require.False(t, st.SkipsFlush(store.Lease), "nothing is known of the place yet")
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("x")))
		st, err = local.Open(root, nil)
		require.NoError(t, err)
		require.False(t, st.SkipsFlush(store.Snapshot))
		return st
	}
	memory := filepath.Join(t.TempDir(), "memory")
	testkit.MountMemory(t, memory, "1m")
	require.True(t, at(filepath.Join(memory, "repo")).SkipsFlush(store.Lease))

	// Leases on another file system than the rest.
	elsewhere := filepath.Join(memory, "elsewhere")
	root := filepath.Join(t.TempDir(), "repo")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, os.Mkdir(root, 0o700))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(root, "leases")))
	require.False(t, at(root).SkipsFlush(store.Lease))

	point := t.TempDir()
	serve(t, t.TempDir(), point)
	require.False(t, at(filepath.Join(point, "repo")).SkipsFlush(store.Lease))
}
