package restore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// A tree with many copies of distant files: every batch needs a whole frame of new files and one file of each earlier
// frame. Frames are opened a few times, not once for each batch, and every file is made once.
func TestFramesAreNotOpenedForEveryBatch(t *testing.T) {
	const rounds, perFrame, length, sealed = 100, 50, 1000, 20_000
	rng := rand.New(rand.NewPCG(7, 8))
	l := newDeferred()
	l.batch.limit = rounds * rounds / 8 * (smallCost + chunkCost)
	d := &dir{path: "/"}
	runs := make(chan packRead, rounds*rounds)
	opened, files, naive := 0, map[string]int{}, 0
	drain := func() {
		for len(runs) > 0 {
			r := <-runs
			opened += len(r.Spans)
			for _, group := range r.Chunks {
				for i := range group {
					files[group[i].To.small.name]++
				}
			}
			if r.batch.readsLeft.Add(-1) == 0 {
				r.batch.done()
			}
		}
	}
	home := make(chan *batch, 1)
	w := &batch{freeList: home}
	made := 0
	add := func(frame, blob int) {
		s := w.smalls.add(small{dir: d, name: fmt.Sprint(made)})
		made++
		at := index.Found{Pack: packNo(1), Loc: index.Loc{
			Offset: uint32(frame) * sealed, Sealed: sealed, Skip: uint32(blob) * length, Len: length,
		}}
		w.chunks = append(w.chunks, chunk{ID: format.ID{1, byte(frame), byte(blob)}, At: at, Len: length,
			To: destination{small: s}})
	}
	for frame := range rounds {
		for blob := range perFrame {
			add(frame, blob)
		}
		for old := range frame {
			add(old, rng.IntN(perFrame))
		}
		naive += frame + 1
		sortChunks(w.chunks)
		require.NoError(t, l.awaitBatch(t.Context()))
		require.NoError(t, submitReads(t.Context(), split(l.deferSmall(w.chunks), 4), w, runs))
		drain()
		w = <-home
		require.Empty(t, w.chunks, "deferred chunks do not hold the batch")
		if l.batch.full() {
			require.NoError(t, l.flush(t.Context(), runs, 4))
			require.Nil(t, l.batch)
			drain()
		}
	}
	require.NoError(t, l.awaitBatch(t.Context()))
	require.NoError(t, l.flush(t.Context(), runs, 4))
	drain()
	require.False(t, d.deferring)
	require.Len(t, files, made)
	for name, times := range files {
		require.Equal(t, 1, times, name)
	}
	require.Equal(t, 5050, naive)
	require.Less(t, opened, 600)
}

// A chunk of a file that is open until it has all of them does not wait, nor does what is in the same frame.
func TestOpenFilesDoNotWait(t *testing.T) {
	l, d := newDeferred(), &dir{path: "/"}
	at := index.Found{Loc: index.Loc{Offset: 48, Sealed: 1000, Len: 10}, Pack: packNo(1)}
	of := func(o destination, offset uint32) chunk {
		p := chunk{ID: format.ID{1, byte(offset)}, At: at, Len: 10, To: o}
		p.At.Offset = offset
		return p
	}
	kept := l.deferSmall([]chunk{
		of(destination{small: &small{dir: d, name: "with"}}, 1), of(destination{file: &file{}}, 1),
		of(destination{small: &small{dir: d, name: "without"}}, 2),
	})
	require.Len(t, kept, 2)
	require.Len(t, l.batch.chunks, 1)
	require.Equal(t, "without", l.batch.chunks[0].To.small.name)
	require.Equal(t, smallCost+chunkCost+dirCost, l.batch.cost)
	l.add(of(destination{small: &small{dir: d}}, 3))
	require.Equal(t, 2*(smallCost+chunkCost)+dirCost, l.batch.cost, "a directory is counted once")

	off := errors.New("off")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(off)
	require.ErrorIs(t, l.flush(ctx, make(chan packRead), 1), off)
	require.ErrorIs(t, l.awaitBatch(ctx), off, "the workers still have it")
}
