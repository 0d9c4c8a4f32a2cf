package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// grownImage makes a small image as -grow does, and returns the settings and the folder in which it is kept.
func grownImage(t *testing.T) (s settings, folder string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	s = settings{files: []int{200}, seed: 1, grow: t.TempDir()}
	if err := s.growAll(t.Context()); err != nil {
		t.Skipf("no image can be mounted here: %v", err)
	}
	return s, kept(s.grow, Shape{Files: 200, Seed: 1})
}

// TestHolderOfAnImageIsNamed: the error for a failed unmount names the process that holds the image.
func TestHolderOfAnImageIsNamed(t *testing.T) {
	s, _ := grownImage(t)
	tree := planted{dir: t.TempDir(), shape: Shape{Files: 200, Seed: 1}}
	require.NoError(t, tree.take(t.Context(), s.grow))
	t.Cleanup(func() { require.NoError(t, tree.unmount()) })
	held, err := os.Open(tree.root())
	require.NoError(t, err)
	tree.mount.tries = 1
	err = tree.unmount()
	require.ErrorIs(t, err, errMounted)
	require.ErrorContains(t, err, fmt.Sprintf("(process %d)", os.Getpid()))
	require.NoError(t, held.Close())
	tree.mount.tries = unmountTries
}

// TestAMountedImageIsNotTaken: it would be mounted twice, and what is in it be removed with the folder.
func TestAMountedImageIsNotTaken(t *testing.T) {
	s, folder := grownImage(t)
	at := filepath.Join(folder, "tree")
	still, err := mountImage(t.Context(), filepath.Join(folder, "image"), at)
	require.NoError(t, err)
	there, err := kit.Count(at)
	require.NoError(t, err)
	tree := planted{dir: t.TempDir(), shape: Shape{Files: 200, Seed: 1}}
	require.ErrorContains(t, tree.take(t.Context(), s.grow), "umount it")
	after, err := kit.Count(at)
	require.NoError(t, err)
	require.Equal(t, there, after)

	require.NoError(t, still.unmount())
	require.NoError(t, tree.take(t.Context(), s.grow))
	require.NoDirExists(t, folder)
	again, err := kit.Count(filepath.Join(tree.dir, "tree"))
	require.NoError(t, err)
	require.Equal(t, there, again)
	require.NoError(t, tree.unmount())
}
