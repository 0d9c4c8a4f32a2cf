package order

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// randomPieces are told apart by To: some lie in a few frames of a few packs, some in the tree, some nowhere.
func randomPieces(rng *rand.Rand, count, inline, lost int) []Piece[int] {
	pieces := make([]Piece[int], count)
	for i := range pieces {
		p := &pieces[i]
		p.To = i
		switch roll := rng.IntN(100); {
		case roll < inline:
		case roll < inline+lost:
			p.ID = format.ID{0xff}
		default:
			p.ID = format.ID{1, byte(rng.IntN(200))}
			p.At = hashcache.Loc{
				Pack: uint32(rng.IntN(3)), Offset: 48 + uint32(rng.IntN(6))*300_000, Sealed: 250_000, Skip: uint32(p.ID[1]) * 100, Len: 100,
			}
			p.Len = p.At.Len
		}
	}
	return pieces
}

// Every piece that is somewhere is in one run, under the frame it lies in; no frame is in two runs; and frames ascend.
func TestRunsHoldEveryPieceOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		count, inline, lost, workers := rng.IntN(1500), rng.IntN(101), rng.IntN(20), 1+rng.IntN(8)
		pieces := randomPieces(rng, count, inline, min(lost, 100-inline))
		missing := map[int]bool{}
		runs := Split(Arrange(pieces, func(p *Piece[int]) { missing[p.To] = true }), workers)
		seen, frames := map[int]bool{}, map[hashcache.Loc]bool{}
		reads := false
		for _, r := range runs {
			reads = reads || len(r.Spans) > 0
			for i, group := range r.Pieces {
				require.NotEmpty(t, group)
				var span repo.Span
				if len(r.Spans) > 0 {
					require.Len(t, r.Spans, len(r.Pieces))
					span = r.Spans[i]
					require.True(t, i == 0 || span.Offset > r.Spans[i-1].Offset)
					frame := hashcache.Loc{Pack: r.Pack, Offset: span.Offset}
					require.False(t, frames[frame], "a frame is read once")
					frames[frame] = true
				} else {
					require.Len(t, r.Pieces, 1)
					require.LessOrEqual(t, len(group), InlineAtOnce)
				}
				for _, p := range group {
					require.False(t, seen[p.To])
					seen[p.To] = true
					require.False(t, missing[p.To])
					if len(r.Spans) == 0 {
						require.True(t, p.Inline(), "nothing is read for this run")
						continue
					}
					require.Equal(t, []uint32{r.Pack, span.Offset, span.Sealed}, []uint32{p.At.Pack, p.At.Offset, p.At.Sealed})
				}
			}
		}
		require.Len(t, seen, count-len(missing))
		for _, r := range runs {
			require.Equal(t, reads, len(r.Spans) > 0, "what is in the tree goes with what is read")
		}
	}
}

// Nothing gets lost or doubled when some frames wait; those that wait are wanted a little of, by pieces that may wait; and
// what stays can still be cut into runs.
func TestSparseFramesWait(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	waited, stayed := 0, 0
	for range 100 {
		count, inline := rng.IntN(1500), rng.IntN(60)
		all := Arrange(randomPieces(rng, count, inline, 0), func(*Piece[int]) { t.Error("lost") })
		for i := range all {
			all[i].At.Sealed = 500 * (1 + all[i].At.Offset/300_000) // frames of which more or less is wanted
		}
		hasty := rng.IntN(3 * max(count, 1))
		wanted, mayWait := map[hashcache.Loc]map[format.ID]bool{}, map[hashcache.Loc]bool{}
		frame := func(p *Piece[int]) hashcache.Loc { return hashcache.Loc{Pack: p.At.Pack, Offset: p.At.Offset} }
		for i := range all {
			if p := &all[i]; !p.Inline() {
				f := frame(p)
				if wanted[f] == nil {
					wanted[f], mayWait[f] = map[format.ID]bool{}, true
				}
				wanted[f][p.ID] = true
				mayWait[f] = mayWait[f] && p.To != hasty
			}
		}
		var put []Piece[int]
		kept := Sift(slices.Clone(all), func(p *Piece[int]) bool { return p.To != hasty }, func(p Piece[int]) { put = append(put, p) })
		seen := map[int]bool{}
		check := func(p *Piece[int], waits bool) {
			require.False(t, seen[p.To])
			seen[p.To] = true
			if !p.Inline() {
				f := frame(p)
				require.Equal(t, waits, mayWait[f] && 100*len(wanted[f]) < int(p.At.Sealed)*3/4)
			} else {
				require.False(t, waits)
			}
		}
		for i := range put {
			check(&put[i], true)
		}
		for i := range kept {
			check(&kept[i], false)
		}
		require.Len(t, seen, count)
		waited, stayed = waited+len(put), stayed+len(kept)
		cut := 0
		for _, r := range Split(kept, 4) {
			for _, group := range r.Pieces {
				cut += len(group)
				for i := range group {
					require.True(t, group[i].Inline() || len(r.Spans) > 0)
				}
			}
		}
		require.Equal(t, len(kept), cut)
	}
	require.Greater(t, waited, 300)
	require.Greater(t, stayed, 1000)
}
