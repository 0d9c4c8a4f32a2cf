package index

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

var repo = [16]byte{1, 2, 3}

func openAt(t testing.TB, path string) *FileIndex {
	t.Helper()
	f, err := cachefile.Open(path, repo, cachefile.IOContext{}, Table())
	require.NoError(t, err)
	c := NewFileIndex(f)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newCache(t testing.TB) *FileIndex {
	return openAt(t, filepath.Join(t.TempDir(), "sub", "cache.db"))
}

func reopen(t testing.TB, c *FileIndex) *FileIndex {
	t.Helper()
	require.NoError(t, c.Close())
	return openAt(t, c.Path())
}

// id returns the i-th of a sequence of random-looking IDs.
func id(i int) format.ID { return blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

// segment returns one pack that holds the blobs, and where a lookup must find each.
func segment(packNo int, blobs []int) (*index.Segment, map[int]Loc) {
	p := index.Pack{ID: id(-1 - packNo), Size: uint64(packNo)*1000 + 7, Table: pack.Table{Kind: pack.Data}}
	p.Table.Salt[0], p.Table.Salt[31] = byte(packNo), 9
	where := make(map[int]Loc)
	offset := uint32(pack.HeaderSize)
	for len(blobs) > 0 {
		n := min(len(blobs), 20)
		f := pack.Frame{Offset: offset, Sealed: uint32(1000 + n), Codec: pack.Zstd}
		for _, b := range blobs[:n] {
			length := uint32(b%5000 + 1)
			where[b] = Loc{Pack: uint32(packNo), Offset: f.Offset, Sealed: f.Sealed, Skip: f.Raw, Len: length}
			f.Blobs = append(f.Blobs, pack.Blob{ID: id(b), Len: length})
			f.Raw += length
		}
		offset += f.Sealed
		p.Table.Frames = append(p.Table.Frames, f)
		blobs = blobs[n:]
	}
	return &index.Segment{Packs: []index.Pack{p}}, where
}

// model holds the expected answers of the cache.
type model struct {
	where    map[int]Loc
	segments []format.ID
}

// grow merges segments of random sizes, over blobs 0 to span.
func (m *model) grow(t testing.TB, c *FileIndex, r *rand.Rand, n, span int) {
	for range n {
		size := r.IntN(60)
		if r.IntN(9) == 0 {
			size = r.IntN(9000) // of the next order of magnitude
		}
		blobs := r.Perm(span)[:min(size, span)]
		no := len(m.segments)
		seg, where := segment(no, blobs)
		segID := id(1_000_000 + no)
		require.NoError(t, c.Merge(segID, seg))
		m.segments = append(m.segments, segID)
		for b, loc := range where {
			m.where[b] = loc
		}
	}
}

func (m *model) check(t testing.TB, c *FileIndex, span int) {
	t.Helper()
	ids := make([]format.ID, 0, span+100)
	for i := range span + 100 { // the last hundred are never merged
		ids = append(ids, id(i))
	}
	rand.New(rand.NewPCG(7, 7)).Shuffle(len(ids)/2, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	back := make(map[format.ID]int)
	for i := range span + 100 {
		back[id(i)] = i
	}
	ids = append(ids, ids[0], ids[0]) // the same ID more than once
	out := make([]Found, len(ids))
	out[0].OK = true // earlier results must not remain
	require.NoError(t, c.Lookup(ids, out))
	for i := range ids {
		loc, ok := m.where[back[ids[i]]]
		require.Equal(t, Found{Loc: loc, OK: ok}, out[i], "blob %d", back[ids[i]])
		if ok {
			require.True(t, c.runs.mayContain(ids[i]), "false negative of blob %d", back[ids[i]])
		}
	}
	segments, err := c.Segments()
	require.NoError(t, err)
	require.ElementsMatch(t, m.segments, slices.Collect(maps.Keys(segments)))
	for n := range m.segments {
		info, err := c.Pack(uint32(n))
		require.NoError(t, err)
		want := PackInfo{ID: id(-1 - n), Salt: [32]byte{0: byte(n), 31: 9}, Size: uint64(n)*1000 + 7}
		require.Equal(t, want, info)
	}
	_, err = c.Pack(uint32(len(m.segments)))
	require.ErrorIs(t, err, ErrNoPack)
}

func TestFileIndexAgainstModel(t *testing.T) {
	testkit.Slow(t)
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const span = 9_000
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCache(t)
			m := &model{where: make(map[int]Loc)}
			m.check(t, c, 100)
			for range 4 {
				m.grow(t, c, r, 25, span)
				m.check(t, c, span)
				c = reopen(t, c)
				m.check(t, c, span)
			}
			require.Empty(t, c.Note())
		})
	}
}

func TestMergeTwiceChangesNothing(t *testing.T) {
	c := newCache(t)
	first, where := segment(0, []int{1, 2, 3})
	require.NoError(t, c.Merge(id(100), first))
	other, _ := segment(1, []int{1})
	require.NoError(t, c.Merge(id(100), other))
	out := make([]Found, 1)
	require.NoError(t, c.Lookup([]format.ID{id(1)}, out))
	require.Equal(t, Found{Loc: where[1], OK: true}, out[0])
}

func TestSegmentsAndTheirSizesAreRemembered(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.Merge(id(1), &index.Segment{}))
	require.NoError(t, c.Merge(id(2), &index.Segment{Stored: 1 << 40}))
	got, err := c.Segments()
	require.NoError(t, err)
	require.Equal(t, map[format.ID]int64{id(1): 0, id(2): 1 << 40}, got)
}

func TestPackKeepsItsNumber(t *testing.T) {
	c := newCache(t)
	for i := range 3 {
		seg, _ := segment(i, []int{i})
		require.NoError(t, c.Merge(id(100+i), seg))
	}
	again, _ := segment(1, []int{1, 50})
	require.NoError(t, c.Merge(id(200), again))
	out := make([]Found, 1)
	require.NoError(t, c.Lookup([]format.ID{id(50)}, out))
	require.True(t, out[0].OK)
	require.Equal(t, uint32(1), out[0].Loc.Pack)
	_, err := c.Pack(3)
	require.ErrorIs(t, err, ErrNoPack)
}

// TestLookupsBesideMerges: a blob that was there is there at every moment, whatever is merged meanwhile.
func TestLookupsDuringSegmentMerges(t *testing.T) {
	c := newCache(t)
	m := &model{where: make(map[int]Loc)}
	m.grow(t, c, rand.New(rand.NewPCG(1, 9)), 10, 2000)
	var known []format.ID
	for b := range m.where {
		known = append(known, id(b))
	}
	require.NotEmpty(t, known)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			out := make([]Found, len(known))
			for {
				err := c.Lookup(known, out)
				for i := range out {
					if !out[i].OK || !c.runs.mayContain(known[i]) {
						err = fmt.Errorf("blob %s was lost: %v", known[i], err)
					}
				}
				if err != nil {
					errs <- err
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	m.grow(t, c, rand.New(rand.NewPCG(2, 9)), 60, 2000)
	close(stop)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func BenchmarkLookup(b *testing.B) {
	c := newCache(b)
	const n = 200_000
	for s := range 20 {
		var blobs []int
		for i := range n / 20 {
			blobs = append(blobs, s*n/20+i)
		}
		seg, _ := segment(s, blobs)
		require.NoError(b, c.Merge(id(-10_000-s), seg))
	}
	for _, kind := range []string{"known", "new"} {
		b.Run(kind, func(b *testing.B) {
			ids := make([]format.ID, 256)
			for i := range ids {
				ids[i] = id(i * 700)
				if kind == "new" {
					ids[i] = id(n + i)
				}
			}
			out := make([]Found, len(ids))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, c.Lookup(ids, out))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/blob")
		})
	}
}

// Drop empties the index, and pack numbers start again.
func TestDrop(t *testing.T) {
	c := newCache(t)
	r := rand.New(rand.NewPCG(1, 1))
	m := &model{where: make(map[int]Loc)}
	m.grow(t, c, r, 20, 500)
	m.check(t, c, 500)
	require.NoError(t, c.Drop())
	m = &model{where: make(map[int]Loc)}
	m.check(t, c, 500)
	require.False(t, c.runs.mayContain(id(1)))
	m.grow(t, c, r, 20, 500)
	m.check(t, c, 500)
	m.check(t, reopen(t, c), 500)
	require.ErrorContains(t, c.Lookup([]format.ID{id(1)}, make([]Found, 1)), "not open", "closed")
}
