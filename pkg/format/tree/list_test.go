package tree

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

func randomChunks(rng *rand.Rand, n int) []Chunk {
	chunks := make([]Chunk, n)
	for i := range chunks {
		chunks[i] = Chunk{ID: randomID(rng), Len: uint64(1 + rng.IntN(1<<18))}
		if rng.IntN(50) == 0 {
			chunks[i].ID = format.ID{}
		}
	}
	return chunks
}

func (s shelf) chunks(t testing.TB, c Content) []Chunk {
	t.Helper()
	if c.List.IsZero() {
		return c.Chunks
	}
	require.Empty(t, c.Chunks)
	var chunks []Chunk
	require.NoError(t, WalkList(t.Context(), s.load, c.List, func(c Chunk) error {
		chunks = append(chunks, c)
		return nil
	}))
	return chunks
}

func TestListRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := shelf{}
	reused := NewContentBuilder(s.emit)
	for _, n := range []int{0, 1, MaxChunks, MaxChunks + 1, 1000, 30_000} {
		chunks := randomChunks(rng, n)
		c, err := packContent(chunks, s.emit)
		require.NoError(t, err)
		require.Equal(t, n > MaxChunks, !c.List.IsZero())
		require.Len(t, s.chunks(t, c), n)
		if n > 0 {
			require.Equal(t, chunks, s.chunks(t, c))
		}
		reused.Reset()
		for i := range chunks {
			require.NoError(t, reused.Add(chunks[i]))
		}
		again, err := reused.Finish()
		require.NoError(t, err)
		require.Equal(t, c.List, again.List)
		require.Len(t, again.Chunks, len(c.Chunks))
	}
}

func TestOneChunkRewritesFewListPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	chunks := randomChunks(rng, 100_000)
	before := shelf{}
	root, err := packContent(chunks, before.emit)
	require.NoError(t, err)
	require.Greater(t, len(before), 30)
	for name, chunks := range map[string][]Chunk{
		"changed":  slices.Replace(slices.Clone(chunks), 50_000, 50_001, randomChunk(rng)),
		"inserted": slices.Insert(slices.Clone(chunks), 30_000, randomChunk(rng)),
		"removed":  slices.Delete(slices.Clone(chunks), 70_000, 70_001),
		"appended": append(slices.Clone(chunks), randomChunk(rng)),
	} {
		after := shelf{}
		c, err := packContent(chunks, after.emit)
		require.NoError(t, err)
		require.NotEqual(t, root, c)
		require.LessOrEqual(t, after.fresh(before), 5, name)
	}
}

// Chunks without a cut among them (holes, or one chunk again and again) must still give pages of bounded size, of more
// than one level.
func TestListWithoutCuts(t *testing.T) {
	for name, c := range map[string]Chunk{
		"holes":  {Len: 1 << 62},
		"never":  {ID: format.ID{31: 1, 3: 0xFF, 7: 0xFF}, Len: 5},
		"always": {ID: format.ID{31: 1}, Len: 5},
	} {
		s := shelf{}
		b := NewContentBuilder(s.emit)
		const n = 300_000
		for range n {
			require.NoError(t, b.Add(c))
		}
		content, err := b.Finish()
		require.NoError(t, err)
		for _, p := range s {
			require.LessOrEqual(t, len(p), cutMax+headroom, name)
		}
		// The holes are more bytes than a file can have: their sums wrap, alike on both sides.
		count := 0
		require.NoError(t, WalkList(t.Context(), s.load, content.List, func(got Chunk) error {
			count++
			if got != c {
				return errors.New("another chunk")
			}
			return nil
		}))
		require.Equal(t, n, count)
	}
}

func TestListRefuses(t *testing.T) {
	b := NewContentBuilder(shelf{}.emit)
	require.ErrorIs(t, b.Add(Chunk{}), ErrInvalid)
	require.ErrorIs(t, b.Add(Chunk{Len: 1 << 63}), ErrInvalid)
	require.ErrorIs(t, b.Add(Chunk{ID: format.ID{1}, Len: 1 << 32}), ErrInvalid)
	_, err := packContent(make([]Chunk, MaxChunks+1), shelf{}.emit)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestListEmitErrors(t *testing.T) {
	broken := errors.New("no space")
	chunks := randomChunks(rand.New(rand.NewPCG(5, 6)), 10_000)
	pages := shelf{}
	_, err := packContent(chunks, pages.emit)
	require.NoError(t, err)
	for fail := range len(pages) {
		calls := 0
		_, err := packContent(chunks, func([]byte) (format.ID, error) {
			if calls++; calls > fail {
				return format.ID{}, broken
			}
			return format.ID{byte(calls)}, nil
		})
		require.ErrorIs(t, err, broken)
		require.Equal(t, fail+1, calls)
	}
}

// packContent writes the content of a file with these chunks.
func packContent(chunks []Chunk, emit Emit) (Content, error) {
	b := NewContentBuilder(emit)
	for i := range chunks {
		if err := b.Add(chunks[i]); err != nil {
			return Content{}, err
		}
	}
	return b.Finish()
}
