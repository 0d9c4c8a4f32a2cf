package tally_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/tally"
)

// file is a file of a random tree, at its place in a walk.
type file struct {
	folder, name string
	bytes        uint64
}

// walk reports a random tree of files below 1 << bits as a walk does, and returns the files.
func walk(t *tally.Tally, rng *rand.Rand, folder string, depth int, bits uint) (rest uint64, files []file) {
	for i := range rng.IntN(8) {
		f := file{folder, fmt.Sprint("f", i), rng.Uint64N(1 << rng.UintN(bits+1))}
		t.Count(f.bytes)
		rest += t.File(f.folder, f.name, f.bytes)
		files = append(files, f)
	}
	for i := range rng.IntN(5) {
		if depth > 0 {
			more, in := walk(t, rng, fmt.Sprintf("%sd%d/", folder, i), depth-1, bits)
			rest, files = rest+more, append(files, in...)
		}
	}
	return t.Folder(folder, rest), files
}

// total returns the bytes of all files.
func total(files []file) (bytes uint64) {
	for _, f := range files {
		bytes += f.bytes
	}
	return bytes
}

// naive finds the rows with a sum for each folder, from the longest path to the shortest.
func naive(files []file, n uint64) map[string]uint64 {
	sums, total := map[string]uint64{}, total(files)
	for _, f := range files {
		sums[f.folder+f.name] += f.bytes
	}
	for {
		at := ""
		for path, bytes := range sums {
			if path != "/" && bytes*n < total && len(path) > len(at) {
				at = path
			}
		}
		if at == "" {
			delete(sums, "") // of an empty tree
			return sums
		}
		end := len(at) - 1
		for end > 0 && at[end-1] != '/' {
			end--
		}
		sums[at[:end]] += sums[at]
		delete(sums, at)
	}
}

func TestRowsAreThoseOfASumForEachFolder(t *testing.T) {
	several := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		sums := tally.New()
		_, files := walk(sums, rng, "/", 3, 4)
		require.Less(t, total(files), uint64(4096), "nothing is rounded")
		n := 1 + rng.IntN(40)
		want := naive(files, uint64(n))
		got, sum := map[string]uint64{}, uint64(0)
		last := total(files)
		rows := sums.Rows(n)
		require.LessOrEqual(t, len(rows), n+1)
		for _, row := range rows {
			require.LessOrEqual(t, row.Bytes, last, "the largest first")
			got[row.Path], last = row.Bytes, row.Bytes
			sum += row.Bytes
		}
		for path, bytes := range want {
			if bytes == 0 {
				delete(want, path)
			}
		}
		require.Equal(t, total(files), sum)
		require.Equal(t, want, got, "seed %d", seed)
		if len(got) > 3 {
			several++
		}
	}
	require.Greater(t, several, 100)
}

// TestSmallPartsMoveUp: of large sums, each file and folder has what is below it, but for one in 4096 of the total.
func TestSmallPartsMoveUp(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		sums := tally.New()
		_, files := walk(sums, rng, "/", 4, 30)
		got := map[string]uint64{}
		for _, row := range sums.Rows(math.MaxInt) {
			got[row.Path] = row.Bytes
		}
		for path := range naive(files, 1<<20) {
			want, have := uint64(0), uint64(0)
			for _, f := range files {
				if strings.HasPrefix(f.folder+f.name, path) {
					want += f.bytes
				}
			}
			for row, bytes := range got {
				if strings.HasPrefix(row, path) {
					have += bytes
				}
			}
			require.LessOrEqual(t, have, want, path)
			require.LessOrEqual(t, want-have, total(files)/4096, path)
		}
	}
}

// TestMemoryDoesNotGrowWithTheFiles: beside what the first sums need, a million equal files have none of their own.
func TestMemoryDoesNotGrowWithTheFiles(t *testing.T) {
	sums := tally.New()
	top, all := uint64(0), uint64(0)
	perRun := testing.AllocsPerRun(1, func() {
		for d := range 1000 {
			folder, rest := fmt.Sprintf("/%d/", d), uint64(0)
			for range 500 {
				sums.Count(100)
				all += 100
				rest += sums.File(folder, "a name", 100)
			}
			top += sums.Folder(folder, rest)
		}
	})
	require.Less(t, perRun, 30_000.0, "for each folder its path, and some sums; not for each file")
	rows := sums.Rows(20)
	require.Equal(t, []tally.Row{{Path: "/", Bytes: all}}, rows)
	require.Less(t, top, all)
}

// TestAFileOfManySnapshotsGrowsTogether: parts that are each small add up once the file has a sum.
func TestAFileOfManySnapshotsGrowsTogether(t *testing.T) {
	sums := tally.New()
	for range 100 {
		sums.Count(300)
		rest := sums.File("/vm/", "disk", 100)
		rest += sums.File("/vm/", "other", 200)
		sums.Folder("/", sums.Folder("/vm/", rest))
	}
	require.Equal(t, []tally.Row{{Path: "/vm/other", Bytes: 20_000}, {Path: "/vm/disk", Bytes: 10_000}}, sums.Rows(20))
}
