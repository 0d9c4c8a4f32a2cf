package restore

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/stretch"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// gatedWorker is a worker whose files lie in a folder behind a gate.
func gatedWorker(t *testing.T) (w *worker, grow func(name string) *file, operations func() uint64, path string) {
	t.Helper()
	path = t.TempDir()
	gate := iopolicy.New(iopolicy.Config{Name: "target", Medium: iopolicy.SSD, Settings: iopolicy.Default()})
	in, err := localfs.Door{Pass: gate.Pass(iopolicy.NewClient(iopolicy.Important))}.OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(in.Release)
	ledger := report.NewJob(report.Restore, time.Now)
	w = &worker{job: &job{ledger: ledger}, clock: ledger.Worker("restorer")}
	grow = func(name string) *file {
		writer, err := in.CreateFile(name)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, writer.Close()) })
		f := &file{path: name, w: writer}
		f.left.Store(1)
		return f
	}
	return w, grow, func() uint64 { return gate.Stats().Operations }, path
}

// chunksOf cuts raw into pieces of f, which begins there at off.
func chunksOf(f *file, raw []byte, off uint64, n int) (pieces []piece) {
	each := len(raw) / n
	for i := range n {
		from := i * each
		pieces = append(pieces, piece{
			To: owner{file: f}, Off: off + uint64(from), Len: uint32(each), At: hashcache.Loc{Skip: uint32(from), Len: uint32(each)},
		})
		f.left.Add(1)
	}
	return pieces
}

// A frame that is a part of one file, or of several that are alike, takes one write for each MiB of each.
func TestNeighboursAreWrittenAtOnce(t *testing.T) {
	const chunks, files = 64, 4
	raw := testkit.Noise(1, 4<<20)
	for _, alike := range []int{1, files} {
		w, grow, operations, path := gatedWorker(t)
		var all []*file
		var pieces []piece
		for i := range alike {
			f := grow(string(rune('a' + i)))
			all = append(all, f)
			pieces = append(pieces, chunksOf(f, raw, uint64(i)*100, chunks)...)
		}
		slices.SortStableFunc(pieces, func(a, b piece) int { return int(a.At.Skip) - int(b.At.Skip) })
		before := operations()
		for i := range pieces {
			w.join(&pieces[i], raw)
		}
		w.flush(raw)
		require.EqualValues(t, alike*len(raw)/stretch.Full, operations()-before, "of %d chunks", len(pieces))
		require.EqualValues(t, alike*len(raw), w.ledger.Bytes.Restored.Load())
		w.joiner.Drain(func(*stretch.Stretch[*file]) { require.Fail(t, "something is left") })
		for i, f := range all {
			require.EqualValues(t, 1, f.left.Load(), "each piece is one part")
			got, err := os.ReadFile(filepath.Join(path, f.path))
			require.NoError(t, err)
			require.Equal(t, raw, got[i*100:])
		}
	}
}

// Pieces in any order, of many files, some of which want the same blobs several times, all come to their places; no
// stretch reaches over a gap in the file or in the frame; and what is written together goes upwards.
func TestStretchesHoldEveryPiece(t *testing.T) {
	const files, chunk = 20, 16
	rng := rand.New(rand.NewPCG(3, 4))
	raw := testkit.Noise(2, 200*chunk)
	for range 20 {
		w, grow, operations, path := gatedWorker(t)
		var all []*file
		var pieces []piece
		want := make([][]byte, files)
		for i := range files {
			f := grow(string(rune('a' + i)))
			all = append(all, f)
			for at := 0; at < 60; {
				at += rng.IntN(2) // a hole, or none
				for skip := rng.IntN(150); rng.IntN(8) > 0; at, skip = at+1, skip+1 {
					off := at * chunk
					pieces = append(pieces, piece{
						To: owner{file: f}, Off: uint64(off), Len: chunk, At: hashcache.Loc{Skip: uint32(skip) * chunk, Len: chunk},
					})
					f.left.Add(1)
					want[i] = append(want[i], make([]byte, off-len(want[i]))...)
					want[i] = append(want[i], raw[skip*chunk:][:chunk]...)
				}
			}
		}
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
		}
		before := operations()
		for i := range pieces {
			w.join(&pieces[i], raw)
		}
		w.flush(raw)
		require.LessOrEqual(t, operations()-before, uint64(len(pieces)))
		for i, f := range all {
			require.EqualValues(t, 1, f.left.Load())
			require.False(t, f.hopeless())
			got, err := os.ReadFile(filepath.Join(path, f.path))
			require.NoError(t, err)
			require.Equal(t, len(want[i]), len(got))
			require.True(t, string(want[i]) == string(got))
		}
	}
}

// What has failed is not written any more, and its parts end all the same.
func TestStretchOfFailedFile(t *testing.T) {
	w, grow, operations, _ := gatedWorker(t)
	f := grow("f")
	raw := testkit.Noise(1, 64<<10)
	pieces := chunksOf(f, raw, 0, 8)
	f.failed.Store(true)
	before := operations()
	for i := range pieces {
		w.join(&pieces[i], raw)
	}
	w.flush(raw)
	require.Equal(t, before, operations())
	require.EqualValues(t, 1, f.left.Load())
}
