package restore

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// gatedWorker is a worker with files in a folder behind a gate.
func gatedWorker(t *testing.T) (w *worker, grow func(name string) *file, operations func() uint64, path string) {
	t.Helper()
	path = t.TempDir()
	gate := iopolicy.New(iopolicy.Config{Name: "target", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	in, err := localfs.IOContext{Pass: gate.Pass(iopolicy.NewClient(iopolicy.Important))}.OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(in.Release)
	ledger := report.NewJob(report.Restore, time.Now)
	w = &worker{job: &job{ledger: ledger}, clock: ledger.Worker("restorer")}
	grow = func(name string) *file {
		writer, err := in.CreateFile(name)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, writer.Close()) })
		f := &file{entry: entry{path: name}, w: writer}
		f.chunksLeft.Store(1)
		return f
	}
	return w, grow, func() uint64 { return gate.Stats().Operations }, path
}

// chunksOf splits raw into chunks of f from offset off.
func chunksOf(f *file, raw []byte, off uint64, n int) (pieces []chunk) {
	each := len(raw) / n
	for i := range n {
		from := i * each
		pieces = append(pieces, chunk{
			To: destination{file: f}, Off: off + uint64(from), Len: uint32(each),
			At: index.Found{Loc: index.Loc{Skip: uint32(from), Len: uint32(each)}},
		})
		f.chunksLeft.Add(1)
	}
	return pieces
}

// A frame that is a part of one file, or of several that are alike, takes one write for each MiB of each.
func TestNeighboursAreOneWrite(t *testing.T) {
	const chunks, files = 64, 4
	raw := testkit.Noise(1, 4<<20)
	for _, alike := range []int{1, files} {
		w, grow, operations, path := gatedWorker(t)
		var all []*file
		var pieces []chunk
		for i := range alike {
			f := grow(string(rune('a' + i)))
			all = append(all, f)
			pieces = append(pieces, chunksOf(f, raw, uint64(i)*100, chunks)...)
		}
		slices.SortStableFunc(pieces, func(a, b chunk) int { return int(a.At.Skip) - int(b.At.Skip) })
		before := operations()
		for i := range pieces {
			w.coalesce(&pieces[i], raw)
		}
		w.flushWrites(raw)
		require.EqualValues(t, alike*len(raw)/maxCoalesced, operations()-before, "of %d chunks", len(pieces))
		require.EqualValues(t, alike*len(raw), w.ledger.Bytes.Restored.Load())
		w.coalescer.drain(func(*coalescedWrite) { require.Fail(t, "something is left") })
		for i, f := range all {
			require.EqualValues(t, 1, f.chunksLeft.Load(), "each piece is one part")
			got, err := os.ReadFile(filepath.Join(path, f.path))
			require.NoError(t, err)
			require.Equal(t, raw, got[i*100:])
		}
	}
}

// Chunks in any order, of many files, with repeated blobs, are all written to their offsets. No write spans a gap in
// the file or in the frame, and the writes of a drain are ascending.
func TestCoalescedWritesHoldEveryChunk(t *testing.T) {
	const files, size = 20, 16
	rng := rand.New(rand.NewPCG(3, 4))
	raw := testkit.Noise(2, 200*size)
	for range 20 {
		w, grow, operations, path := gatedWorker(t)
		var all []*file
		var pieces []chunk
		want := make([][]byte, files)
		for i := range files {
			f := grow(string(rune('a' + i)))
			all = append(all, f)
			for at := 0; at < 60; {
				at += rng.IntN(2) // a hole, or none
				for skip := rng.IntN(150); rng.IntN(8) > 0; at, skip = at+1, skip+1 {
					off := at * size
					pieces = append(pieces, chunk{
						To: destination{file: f}, Off: uint64(off), Len: size,
						At: index.Found{Loc: index.Loc{Skip: uint32(skip) * size, Len: size}},
					})
					f.chunksLeft.Add(1)
					want[i] = append(want[i], make([]byte, off-len(want[i]))...)
					want[i] = append(want[i], raw[skip*size:][:size]...)
				}
			}
		}
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
		}
		before := operations()
		for i := range pieces {
			w.coalesce(&pieces[i], raw)
		}
		w.flushWrites(raw)
		require.LessOrEqual(t, operations()-before, uint64(len(pieces)))
		for i, f := range all {
			require.EqualValues(t, 1, f.chunksLeft.Load())
			require.False(t, f.hasFailed())
			got, err := os.ReadFile(filepath.Join(path, f.path))
			require.NoError(t, err)
			require.Equal(t, len(want[i]), len(got))
			require.True(t, string(want[i]) == string(got))
		}
	}
}

// What has failed is not written any more, and its parts end all the same.
func TestFailedFileIsNotWritten(t *testing.T) {
	w, grow, operations, _ := gatedWorker(t)
	f := grow("f")
	raw := testkit.Noise(1, 64<<10)
	pieces := chunksOf(f, raw, 0, 8)
	f.failed.Store(true)
	before := operations()
	for i := range pieces {
		w.coalesce(&pieces[i], raw)
	}
	w.flushWrites(raw)
	require.Equal(t, before, operations())
	require.EqualValues(t, 1, f.chunksLeft.Load())
}
