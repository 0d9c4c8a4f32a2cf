package restore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/restore/order"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// A tree with many copies of files that lie far apart: every window wants a whole frame of new files and one file of each
// frame before. Frames are opened a few times then, instead of once for each window, and every file is made once.
func TestFramesAreNotOpenedForEveryWindow(t *testing.T) {
	const rounds, perFrame, length, sealed = 100, 50, 1000, 20_000
	rng := rand.New(rand.NewPCG(7, 8))
	l := newLate()
	l.window.limit = rounds * rounds / 8 * (smallWeight + pieceWeight)
	d := &dir{path: "/"}
	runs := make(chan run, rounds*rounds)
	opened, files, naive := 0, map[string]int{}, 0
	drain := func() {
		for len(runs) > 0 {
			r := <-runs
			opened += len(r.Spans)
			for _, group := range r.Pieces {
				for i := range group {
					files[group[i].To.small.name]++
				}
			}
			if r.window.runs.Add(-1) == 0 {
				r.window.done()
			}
		}
	}
	home := make(chan *window, 1)
	w := &window{home: home}
	made := 0
	add := func(frame, blob int) {
		s := w.smalls.add(small{dir: d, name: fmt.Sprint(made)})
		made++
		at := hashcache.Loc{Pack: 1, Offset: uint32(frame) * sealed, Sealed: sealed, Skip: uint32(blob) * length, Len: length}
		w.pieces = append(w.pieces, piece{ID: format.ID{1, byte(frame), byte(blob)}, At: at, Len: length, To: owner{small: s}})
	}
	for frame := range rounds {
		for blob := range perFrame {
			add(frame, blob)
		}
		for old := range frame {
			add(old, rng.IntN(perFrame))
		}
		naive += frame + 1
		order.Sort(w.pieces)
		require.NoError(t, l.wait(t.Context()))
		require.NoError(t, issue(t.Context(), order.Split(l.sift(w.pieces), 4), w, runs))
		drain()
		w = <-home
		require.Empty(t, w.pieces, "what waits does not hold the window")
		if l.window.full() {
			require.NoError(t, l.flush(t.Context(), runs, 4))
			require.Nil(t, l.window)
			drain()
		}
	}
	require.NoError(t, l.wait(t.Context()))
	require.NoError(t, l.flush(t.Context(), runs, 4))
	drain()
	require.False(t, d.waits)
	require.Len(t, files, made)
	for name, times := range files {
		require.Equal(t, 1, times, name)
	}
	require.Equal(t, 5050, naive)
	require.Less(t, opened, 600)
}

// A chunk of a file that is open until it has all of them does not wait, nor does what is in the same frame.
func TestOpenFilesDoNotWait(t *testing.T) {
	l, d := newLate(), &dir{path: "/"}
	at := hashcache.Loc{Pack: 1, Offset: 48, Sealed: 1000, Len: 10}
	of := func(o owner, offset uint32) piece {
		p := piece{ID: format.ID{1, byte(offset)}, At: at, Len: 10, To: o}
		p.At.Offset = offset
		return p
	}
	kept := l.sift([]piece{
		of(owner{small: &small{dir: d, name: "with"}}, 1), of(owner{file: &file{}}, 1), of(owner{small: &small{dir: d, name: "without"}}, 2),
	})
	require.Len(t, kept, 2)
	require.Len(t, l.window.pieces, 1)
	require.Equal(t, "without", l.window.pieces[0].To.small.name)
	require.Equal(t, smallWeight+pieceWeight+dirWeight, l.window.weight)
	l.add(of(owner{small: &small{dir: d}}, 3))
	require.Equal(t, 2*(smallWeight+pieceWeight)+dirWeight, l.window.weight, "a directory is counted once")

	off := errors.New("off")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(off)
	require.ErrorIs(t, l.flush(ctx, make(chan run), 1), off)
	require.ErrorIs(t, l.wait(ctx), off, "the workers still have it")
}
