package restore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// randomChunks are identified by To: some lie in a few frames of a few packs, some in the tree, some nowhere.
func randomChunks(rng *rand.Rand, count, inline, lost int) []Chunk[int] {
	pieces := make([]Chunk[int], count)
	for i := range pieces {
		p := &pieces[i]
		p.To = i
		switch roll := rng.IntN(100); {
		case roll < inline:
		case roll < inline+lost:
			p.ID = format.ID{0xff}
		default:
			p.ID = format.ID{1, byte(rng.IntN(200))}
			p.At = index.Loc{
				Pack: uint32(rng.IntN(3)), Offset: 48 + uint32(rng.IntN(6))*300_000, Sealed: 250_000, Skip: uint32(p.ID[1]) * 100,
				Len: 100,
			}
			p.Len = p.At.Len
		}
	}
	return pieces
}

// Every located chunk is in one read, under its frame; no frame is in two reads; and frames ascend.
func TestReadsHoldEveryChunkOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		count, inline, lost, workers := rng.IntN(1500), rng.IntN(101), rng.IntN(20), 1+rng.IntN(8)
		pieces := randomChunks(rng, count, inline, min(lost, 100-inline))
		missing := map[int]bool{}
		runs := Split(Arrange(pieces, func(p *Chunk[int]) { missing[p.To] = true }), workers)
		seen, frames := map[int]bool{}, map[index.Loc]bool{}
		reads := false
		for _, r := range runs {
			reads = reads || len(r.Spans) > 0
			for i, group := range r.Chunks {
				require.NotEmpty(t, group)
				var span repo.Span
				if len(r.Spans) > 0 {
					require.Len(t, r.Spans, len(r.Chunks))
					span = r.Spans[i]
					require.True(t, i == 0 || span.Offset > r.Spans[i-1].Offset)
					frame := index.Loc{Pack: r.Pack, Offset: span.Offset}
					require.False(t, frames[frame], "a frame is read once")
					frames[frame] = true
				} else {
					require.Len(t, r.Chunks, 1)
					require.LessOrEqual(t, len(group), MaxInline)
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

// Deferring loses and duplicates no chunk. Deferred chunks use little of their frame and may wait; the others can still
// be split into reads.
func TestSparseFramesWait(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	waited, stayed := 0, 0
	for range 100 {
		count, inline := rng.IntN(1500), rng.IntN(60)
		all := Arrange(randomChunks(rng, count, inline, 0), func(*Chunk[int]) { t.Error("lost") })
		for i := range all {
			all[i].At.Sealed = 500 * (1 + all[i].At.Offset/300_000) // frames that are used more or less
		}
		hasty := rng.IntN(3 * max(count, 1))
		wanted, mayWait := map[index.Loc]map[format.ID]bool{}, map[index.Loc]bool{}
		frame := func(p *Chunk[int]) index.Loc { return index.Loc{Pack: p.At.Pack, Offset: p.At.Offset} }
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
		var put []Chunk[int]
		kept := Defer(slices.Clone(all), func(p *Chunk[int]) bool { return p.To != hasty },
			func(p Chunk[int]) { put = append(put, p) })
		seen := map[int]bool{}
		check := func(p *Chunk[int], waits bool) {
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
			for _, group := range r.Chunks {
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
