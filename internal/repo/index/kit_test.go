package index

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

var repo = [16]byte{1, 2, 3}

// id returns the i-th of a sequence of random-looking IDs.
func id(i int) format.ID { return blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

// at is where a blob must be found.
type at struct {
	pack int // number of the pack
	loc  Loc
}

func packOf(n int) PackInfo {
	return PackInfo{ID: id(-1 - n), Salt: [32]byte{0: byte(n), 31: 9}, Size: uint64(n)*1000 + 7}
}

// segment returns one pack that holds the blobs, and where a lookup must find each.
func segment(packNo int, blobs []int) (*index.Segment, map[int]at) {
	info := packOf(packNo)
	p := index.Pack{ID: info.ID, Size: info.Size, Table: pack.Table{Kind: pack.Data, Salt: info.Salt}}
	where := make(map[int]at)
	offset := uint32(pack.HeaderSize)
	for len(blobs) > 0 {
		n := min(len(blobs), 20)
		f := pack.Frame{Offset: offset, Sealed: uint32(1000 + n), Codec: pack.Zstd}
		for _, b := range blobs[:n] {
			length := uint32(b%5000 + 1)
			where[b] = at{packNo, Loc{Offset: f.Offset, Sealed: f.Sealed, Skip: f.Raw, Len: length}}
			f.Blobs = append(f.Blobs, pack.Blob{ID: id(b), Len: length})
			f.Raw += length
		}
		offset += f.Sealed
		p.Table.Frames = append(p.Table.Frames, f)
		blobs = blobs[n:]
	}
	return &index.Segment{Packs: []index.Pack{p}}, where
}

func segmentID(n int) format.ID { return id(1_000_000 + n) }

func upTo(n int) []int {
	blobs := make([]int, n)
	for i := range blobs {
		blobs[i] = i
	}
	return blobs
}

// model holds the segments in the order in which they were merged, and the expected answers.
type model struct {
	where    map[int]at
	segments []format.ID
}

func newModel() *model { return &model{where: make(map[int]at)} }

// merge merges a segment of these blobs.
func (m *model) merge(t testing.TB, c *Cache, blobs []int) {
	t.Helper()
	no := len(m.segments)
	seg, where := segment(no, blobs)
	seg.Stored = int64(no + 1)
	require.NoError(t, c.Merge(segmentID(no), seg))
	m.segments = append(m.segments, segmentID(no))
	for b, place := range where {
		m.where[b] = place
	}
}

// check requires the right answer for all blobs below span, and for some that were never merged.
func (m *model) check(t testing.TB, c *Cache, span int) {
	t.Helper()
	wrong, missing := m.compare(t, c, span)
	require.Zero(t, wrong)
	require.Zero(t, missing)
	segments, err := c.Segments()
	require.NoError(t, err)
	require.Len(t, segments, len(m.segments))
	for no, id := range m.segments {
		require.EqualValues(t, no+1, segments[id])
	}
	packs := make(map[PackInfo]bool)
	require.NoError(t, c.Packs(func(p PackInfo) error { packs[p] = true; return nil }))
	require.Len(t, packs, len(m.segments))
	for n := range m.segments {
		require.True(t, packs[packOf(n)])
	}
}

// compare counts wrong and missing answers.
func (m *model) compare(t testing.TB, c *Cache, span int) (wrong, missing int) {
	t.Helper()
	ids := make([]format.ID, 0, span+102)
	for i := range span + 100 {
		ids = append(ids, id(i))
	}
	ids = append(ids, ids[0], ids[0]) // the same ID more than once
	out := make([]Found, len(ids))
	out[0].Pack = &PackInfo{} // earlier results must not remain
	if err := c.Lookup(ids, out); err != nil {
		require.ErrorIs(t, err, ErrLost)
		return 0, len(m.where)
	}
	for i := range ids {
		b := i
		if i >= span+100 {
			b = 0
		}
		want, known := m.where[b]
		switch {
		case out[i].Pack == nil && known:
			missing++
		case out[i].Pack != nil && (!known || *out[i].Pack != packOf(want.pack) || out[i].Loc != want.loc):
			wrong++
		}
	}
	return wrong, missing
}

// runNames returns the names of the runs in a cache folder.
func runNames(t testing.TB, dir string) (names []string) {
	t.Helper()
	live, rest, err := folder{dir}.list()
	require.NoError(t, err)
	require.Empty(t, rest)
	for _, s := range live {
		names = append(names, s.name())
	}
	return names
}
