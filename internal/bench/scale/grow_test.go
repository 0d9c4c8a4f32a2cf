package scale

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// digest returns one line for each object: path, size, content, and the time where it was set.
func digest(t *testing.T, root string) (lines map[string]string) {
	t.Helper()
	lines = map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		if d.IsDir() {
			lines[rel] = "dir"
			return nil
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		lines[rel] = fmt.Sprintf("%d %x", len(data), sha256.Sum256(data))
		return nil
	}))
	return lines
}

func TestSameSeedSameTree(t *testing.T) {
	testkit.Slow(t)
	shape := Shape{Files: 1000, Seed: 7}
	a, b := filepath.Join(testkit.RamDir(t), "a"), filepath.Join(t.TempDir(), "b")
	made, err := shape.Make(t.Context(), a)
	require.NoError(t, err)
	again, err := shape.Make(t.Context(), b)
	require.NoError(t, err)
	made.Seconds, again.Seconds = 0, 0
	require.Equal(t, made, again)
	lines := digest(t, a)
	require.Equal(t, lines, digest(t, b))
	require.Len(t, lines, int(made.Objects()))

	other, err := Shape{Files: 1000, Seed: 8}.Make(t.Context(), filepath.Join(testkit.RamDir(t), "c"))
	require.NoError(t, err)
	require.NotEqual(t, made.Bytes, other.Bytes)

	changed, err := shape.Change(t.Context(), b, 100)
	require.NoError(t, err)
	differ := 0
	for path, line := range digest(t, b) {
		require.Contains(t, lines, path)
		if lines[path] != line {
			differ++
		}
	}
	require.Equal(t, changed, differ)
	require.InDelta(t, 10, changed, 8)

	_, err = shape.Make(t.Context(), a)
	require.ErrorIs(t, err, fs.ErrExist)
}

// The shape is that of the published run, within what randomness allows.
func TestShape(t *testing.T) {
	shape := Shape{Files: 200_000, Seed: 1}
	dirs, files, empty, nonEmpty, shared, large := 0, 0, 0, 0, 0, 0
	require.NoError(t, shape.units("", func(u unit) error {
		dirs++
		for i := range u.files {
			f := shape.file(u.index, i)
			files++
			switch {
			case f.size == 0:
				empty++
			default:
				nonEmpty++
				if f.content < pool {
					shared++
				}
			}
			if f.size > tiny {
				large++
			}
			require.LessOrEqual(t, f.size, largest)
		}
		return nil
	}))
	require.Equal(t, shape.Files, files)
	require.InDelta(t, 27.84/2.5, float64(files)/float64(dirs), 0.4)
	require.InDelta(t, 0.25, float64(empty)/float64(files), 0.01)
	require.InDelta(t, 0.35, float64(shared)/float64(nonEmpty), 0.01)
	require.InDelta(t, 0.05, float64(large)/float64(files), 0.005)
}

func TestSampleIsInTheTree(t *testing.T) {
	shape := Shape{Files: 5000, Seed: 3}
	root := filepath.Join(testkit.RamDir(t), "tree")
	_, err := shape.Make(t.Context(), root)
	require.NoError(t, err)
	sample := shape.Sample(100)
	require.NotEmpty(t, sample)
	require.DirExists(t, filepath.Join(root, sample))
}
