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

// packNo is a pack of that number. Each call returns another copy.
func packNo(n int) *index.PackInfo { return &index.PackInfo{ID: format.ID{byte(n)}} }

// frameOf identifies a frame by the number of its pack and its offset there.
type frameOf struct {
	pack   byte
	offset uint32
}

// randomChunks are identified by Off: some lie in a few frames of a few packs, some in the tree, some nowhere.
func randomChunks(rng *rand.Rand, count, inline, lost int) []chunk {
	pieces := make([]chunk, count)
	for i := range pieces {
		p := &pieces[i]
		p.Off = uint64(i)
		switch roll := rng.IntN(100); {
		case roll < inline:
		case roll < inline+lost:
			p.ID = format.ID{0xff}
		default:
			p.ID = format.ID{1, byte(rng.IntN(200))}
			p.At = index.Found{Pack: packNo(rng.IntN(3)), Loc: index.Loc{
				Offset: 48 + uint32(rng.IntN(6))*300_000, Sealed: 250_000, Skip: uint32(p.ID[1]) * 100, Len: 100,
			}}
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
		missing := map[uint64]bool{}
		runs := split(arrange(pieces, func(p *chunk) { missing[p.Off] = true }), workers)
		seen, frames := map[uint64]bool{}, map[frameOf]bool{}
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
					frame := frameOf{r.Pack.ID[0], span.Offset}
					require.False(t, frames[frame], "a frame is read once")
					frames[frame] = true
				} else {
					require.Len(t, r.Chunks, 1)
					require.LessOrEqual(t, len(group), maxInline)
				}
				for _, p := range group {
					require.False(t, seen[p.Off])
					seen[p.Off] = true
					require.False(t, missing[p.Off])
					if len(r.Spans) == 0 {
						require.True(t, p.inline(), "nothing is read for this run")
						continue
					}
					require.Equal(t, r.Pack.ID, p.At.Pack.ID)
					require.Equal(t, span, repo.Span{Offset: p.At.Offset, Sealed: p.At.Sealed})
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
		all := arrange(randomChunks(rng, count, inline, 0), func(*chunk) { t.Error("lost") })
		for i := range all {
			all[i].At.Sealed = 500 * (1 + all[i].At.Offset/300_000) // frames that are used more or less
		}
		hasty := rng.Uint64N(3 * uint64(max(count, 1)))
		wanted, mayWait := map[frameOf]map[format.ID]bool{}, map[frameOf]bool{}
		frame := func(p *chunk) frameOf { return frameOf{p.At.Pack.ID[0], p.At.Offset} }
		for i := range all {
			if p := &all[i]; !p.inline() {
				f := frame(p)
				if wanted[f] == nil {
					wanted[f], mayWait[f] = map[format.ID]bool{}, true
				}
				wanted[f][p.ID] = true
				mayWait[f] = mayWait[f] && p.Off != hasty
			}
		}
		var put []chunk
		kept := deferSparse(slices.Clone(all), func(p *chunk) bool { return p.Off != hasty },
			func(p chunk) { put = append(put, p) })
		seen := map[uint64]bool{}
		check := func(p *chunk, waits bool) {
			require.False(t, seen[p.Off])
			seen[p.Off] = true
			if !p.inline() {
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
		for _, r := range split(kept, 4) {
			for _, group := range r.Chunks {
				cut += len(group)
				for i := range group {
					require.True(t, group[i].inline() || len(r.Spans) > 0)
				}
			}
		}
		require.Equal(t, len(kept), cut)
	}
	require.Greater(t, waited, 300)
	require.Greater(t, stayed, 1000)
}
