package kit

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// Mount mounts a file system in dir for the time of the test.
func Mount(t *testing.T, what, kind, dir string, flags uintptr, options string) {
	t.Helper()
	testkit.RequireRoot(t)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if err := unix.Mount(what, dir, kind, flags, options); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// Fill takes all the space there is in dir, and returns the file that holds it.
func Fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, unix.ENOSPC)
			size /= 2
		}
	}
	return path
}

// OnGet calls a function before each read of a pack.
type OnGet struct {
	store.Store
	OnPack func()
}

func (s *OnGet) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Pack {
		s.OnPack()
	}
	return s.Store.Get(ctx, name, off, p)
}
