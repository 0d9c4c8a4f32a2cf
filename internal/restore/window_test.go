package restore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// randomPieces are pieces of files: some lie in a few frames of a few packs, some in the tree, some nowhere.
func randomPieces(rng *rand.Rand, count, inline, lost int) []piece {
	pieces := make([]piece, count)
	for i := range pieces {
		p := &pieces[i]
		p.off = uint64(i) // tells them apart
		p.small = &small{name: fmt.Sprint(i)}
		switch roll := rng.IntN(100); {
		case roll < inline:
		case roll < inline+lost:
			p.id = format.ID{0xff}
		default:
			p.id = format.ID{1, byte(rng.IntN(200))}
			p.at = hashcache.Loc{
				Pack: uint32(rng.IntN(3)), Offset: 48 + uint32(rng.IntN(6))*300_000, Sealed: 250_000, Skip: uint32(p.id[1]) * 100, Len: 100,
			}
		}
	}
	return pieces
}

// Every piece that is somewhere is in one run, under the frame it lies in; no frame is in two runs; and frames ascend.
func TestRunsHoldEveryPieceOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		count, inline, lost, workers := rng.IntN(1500), rng.IntN(101), rng.IntN(20), 1+rng.IntN(8)
		pieces := randomPieces(rng, count, inline, min(lost, 100-inline))
		w := &window{}
		missing := map[uint64]bool{}
		runs := split(w, arrange(pieces, func(p *piece) { missing[p.off] = true }), workers)
		seen, frames := map[uint64]bool{}, map[hashcache.Loc]bool{}
		reads := false
		for _, r := range runs {
			require.Same(t, w, r.window)
			reads = reads || len(r.spans) > 0
			for i, group := range r.pieces {
				require.NotEmpty(t, group)
				var span repo.Span
				if len(r.spans) > 0 {
					require.Len(t, r.spans, len(r.pieces))
					span = r.spans[i]
					require.True(t, i == 0 || span.Offset > r.spans[i-1].Offset)
					frame := hashcache.Loc{Pack: r.pack, Offset: span.Offset}
					require.False(t, frames[frame], "a frame is read once")
					frames[frame] = true
				} else {
					require.Len(t, r.pieces, 1)
					require.LessOrEqual(t, len(group), inlineAtOnce)
				}
				for _, p := range group {
					require.False(t, seen[p.off])
					seen[p.off] = true
					require.False(t, missing[p.off])
					if len(r.spans) == 0 {
						require.True(t, p.isInline(), "nothing is read for this run")
						continue
					}
					require.Equal(t, []uint32{r.pack, span.Offset, span.Sealed}, []uint32{p.at.Pack, p.at.Offset, p.at.Sealed})
				}
			}
		}
		require.Len(t, seen, count-len(missing))
		for _, r := range runs {
			require.Equal(t, reads, len(r.spans) > 0, "what is in the tree goes with what is read")
		}
	}
}

// Windows grow from a small one, so that reading begins at once, and what they hold is forgotten when they are done.
func TestWindowIsForgotten(t *testing.T) {
	w := &window{limit: 1000}
	first := w.smalls.add(small{name: "first"})
	for i := range 3 * smallBlock {
		s := w.smalls.add(small{name: fmt.Sprint(i)})
		w.pieces = append(w.pieces, piece{small: s})
		w.weight++
	}
	require.Equal(t, "first", first.name, "what was added stays where it is")
	require.True(t, w.full())
	w.reset()
	require.False(t, w.full())
	require.Empty(t, w.pieces)
	require.Nil(t, w.pieces[:1][0].small)
	require.Empty(t, first.name)
	again := w.smalls.add(small{name: "again"})
	require.Same(t, first, again, "the memory is used again")
}
