package corpus

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// state returns a hash of every file below a folder.
func state(t *testing.T, root string) map[string][sha256.Size]byte {
	t.Helper()
	out := map[string][sha256.Size]byte{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path[len(root):]] = sha256.Sum256(text)
		return err
	}))
	return out
}

func specs(t *testing.T) []Spec {
	return []Spec{
		{Kind: Tiny, Seed: 1, Scale: 0.0005},
		{Kind: Mixed, Seed: 1, Scale: 0.003},
		{Kind: Source, Seed: 1, Scale: 0.003, Roots: []string{trees(t)}},
	}
}

// trees returns a folder of text, links and a folder that is passed over.
func trees(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(testkit.RamDir(t), "001") // the changes depend on this name
	v := newWriter().voice(1)
	for i := range 220 {
		at := filepath.Join(dir, fmt.Sprint("d", i%20), fmt.Sprint("e", i%3))
		require.NoError(t, os.MkdirAll(at, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(at, fmt.Sprint(i, ".go")), v.text(nil, throw(uint64(i)), 4000), 0o444))
	}
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "d1", "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cache"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cache", "packed"), nil, 0o644))
	return dir
}

func TestSameSeedMakesTheSameData(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec.Kind, func(t *testing.T) {
			var sets [3]*Set
			for i := range sets {
				of := spec
				if i == 2 {
					of.Seed++
				}
				var err error
				sets[i], err = Make(t.Context(), filepath.Join(testkit.RamDir(t), "set"), of)
				require.NoError(t, err)
			}
			first := state(t, sets[0].Root())
			require.True(t, maps.Equal(first, state(t, sets[1].Root())))
			if spec.Kind != Source { // the first version is a copy, whatever the seed
				require.False(t, maps.Equal(first, state(t, sets[2].Root())))
			}
			for i := range sets {
				c, err := sets[i].Next(t.Context())
				require.NoError(t, err)
				require.NotZero(t, c.Changed+c.Added+c.Deleted+c.Renamed)
			}
			second := state(t, sets[0].Root())
			require.True(t, maps.Equal(second, state(t, sets[1].Root())))
			require.False(t, maps.Equal(second, state(t, sets[2].Root())))
			require.False(t, maps.Equal(first, second))
			for range 2 {
				_, err := sets[0].Next(t.Context())
				require.NoError(t, err)
			}
			require.False(t, maps.Equal(second, state(t, sets[0].Root())), "versions differ from one another")
		})
	}
}

func TestNextVersionChangesWhatItSays(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec.Kind, func(t *testing.T) {
			s, err := Make(t.Context(), filepath.Join(testkit.RamDir(t), "set"), spec)
			require.NoError(t, err)
			before := state(t, s.Root())
			c, err := s.Next(t.Context())
			require.NoError(t, err)
			after := state(t, s.Root())
			var changed, gone, come int64
			for path, sum := range before {
				if now, ok := after[path]; !ok {
					gone++
				} else if now != sum {
					changed++
				}
			}
			for path := range after {
				if _, ok := before[path]; !ok {
					come++
				}
			}
			if spec.Kind != Source {
				require.Equal(t, c.Changed, changed)
				require.Zero(t, gone+come+c.Added+c.Deleted+c.Renamed)
				return
			}
			require.LessOrEqual(t, changed, c.Changed) // what was edited may lie in a folder that was renamed
			require.Equal(t, c.Added-c.Deleted, come-gone)
		})
	}
}

// TestSizesAreAsDescribed makes the plan of the full sets, and adds up sizes without writing anything.
func TestSizesAreAsDescribed(t *testing.T) {
	full := newTiny(1, 1)
	require.Len(t, full.layout, tinyFolders)
	files, sum, copies, largest := 0, int64(0), 0, int64(0)
	for _, f := range full.layout {
		require.Equal(t, files, f.first)
		files += f.files
	}
	require.Equal(t, tinyFiles, files)
	for file := range tinyFiles {
		of := full.original(file)
		d := throw(full.seed, 3, uint64(of), 0)
		n := full.size(&d)
		sum, largest = sum+n, max(largest, n)
		if of != file || n == 0 {
			copies++
		}
	}
	require.InEpsilon(t, 1.33e9, sum, 0.02)
	require.Less(t, largest, int64(tinyLargest))
	require.InEpsilon(t, 0.35, float64(copies)/tinyFiles, 0.02)

	depth, most := 0, 0
	for _, f := range full.layout {
		depth, most = max(depth, f.depth), max(most, f.files)
	}
	require.Equal(t, deepest, depth)
	require.Greater(t, most, 500, "some folders are large")

	m := newMixed(1, 1)
	require.Equal(t, int64(imageBytes), m.image)
	sum, other := m.image, m.image
	for file := range mixedFiles {
		d := throw(m.seed, 1, uint64(file))
		mean, of := int64(textMean), true
		_ = textEnding(&d)
		switch x := d.below(1000); {
		case x < mixedPacked:
			mean, of = packedMean, false
		case x < mixedPacked+mixedPrograms:
			mean, of = programsMean, false
		}
		n := d.spread(mean)
		sum += n
		if !of {
			other += n
		}
	}
	require.InEpsilon(t, 4.2e9, sum, 0.03)
	require.InEpsilon(t, 0.52, float64(other)/float64(sum), 0.06)
}

// TestTextCompressesAsSourcesDo: files of up to 4 KiB of Go's standard library, of headers, of Python's packages and of
// Go modules compress, one by one with zstd at its default level, to 43-49 % of their size, and 1 MiB of them at once
// to 16-26 %.
func TestTextCompressesAsSourcesDo(t *testing.T) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	defer e.Close()
	v := newWriter().voice(7)
	var alone, n int
	var all []byte
	for i := range 700 {
		d := throw(uint64(i))
		x := d.below(1 << 16)
		p := v.text(nil, d, x*x>>20)
		alone += len(e.EncodeAll(p, nil))
		n += len(p)
		all = append(all, p...)
	}
	require.InDelta(t, 0.49, float64(alone)/float64(n), 0.03)
	require.InDelta(t, 0.25, float64(len(e.EncodeAll(all, nil)))/float64(n), 0.03)
	p := v.machine(nil, throw(1), 1<<20)
	require.InDelta(t, 0.36, float64(len(e.EncodeAll(p, nil)))/float64(len(p)), 0.03)
}

func TestTakesOnlyWhatWasAskedFor(t *testing.T) {
	dir := filepath.Join(testkit.RamDir(t), "set")
	spec := Spec{Kind: Tiny, Seed: 1, Scale: 0.0001}
	made, err := Make(t.Context(), dir, spec)
	require.NoError(t, err)
	require.Equal(t, int64(104), made.Objects)
	_, err = made.Next(t.Context())
	require.NoError(t, err)
	taken, err := Make(t.Context(), dir, spec)
	require.NoError(t, err)
	require.Equal(t, made, taken)
	spec.Seed++
	_, err = Make(t.Context(), dir, spec)
	require.ErrorIs(t, err, ErrOther)
	spec.Seed--
	taken.Whole = false // as after a kill
	require.NoError(t, taken.save())
	_, err = Make(t.Context(), dir, spec)
	require.ErrorIs(t, err, ErrOther)
	_, err = Make(t.Context(), filepath.Join(testkit.RamDir(t), "x"), Spec{Kind: "huge", Scale: 1})
	require.ErrorIs(t, err, ErrKind)
	_, err = Make(t.Context(), filepath.Join(testkit.RamDir(t), "x"), Spec{Kind: Tiny})
	require.ErrorContains(t, err, "scale")
	_, err = Make(t.Context(), filepath.Join(testkit.RamDir(t), "x"), Spec{Kind: Source, Scale: 1})
	require.ErrorContains(t, err, "name some")
}
