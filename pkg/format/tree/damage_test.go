package tree

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func isTyped(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)
}

// samples returns pages of all kinds.
func samples(t testing.TB) (pages [][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 9))
	s := shelf{}
	s.build(t, nil)
	s.build(t, randomNodes(rng, 12))
	s.build(t, sourceNodes(rng, 4))
	for _, p := range s {
		pages = append(pages, p)
	}
	b := NewBuilder(s.emit)
	for i, name := range []string{"a", "ab", "b"} {
		b.last = append(b.last[:0], name...)
		require.NoError(t, b.pages.add(1, randomID(rng), [2]uint64{uint64(i + 1)}))
	}
	pages = append(pages, bytes.Clone(b.pages.at(1).finish(kindTree, 1)))
	lists := NewContentBuilder(s.emit)
	for range 5 {
		require.NoError(t, lists.add(randomChunk(rng)))
	}
	pages = append(pages, bytes.Clone(lists.pages.at(0).finish(kindList, 0)))
	require.NoError(t, lists.pages.flush(0))
	return append(pages, bytes.Clone(lists.pages.at(1).finish(kindList, 1)))
}

// decodeAny decodes a page of either kind and encodes it again, as far as it is a leaf.
func decodeAny(p []byte) (again []byte, err error) {
	pg, err := DecodePage(p)
	if err != nil {
		list, listErr := DecodeListPage(p)
		if listErr != nil {
			if len(p) > 0 && p[0] == kindList {
				return nil, listErr
			}
			return nil, err
		}
		if list.Level > 0 {
			return p, nil
		}
		var out page
		out.reset()
		for i := range list.Chunks {
			out.buf = appendChunk(out.buf, &list.Chunks[i])
			out.count++
		}
		return out.finish(kindList, 0), nil
	}
	if pg.Level > 0 {
		return p, nil
	}
	var l leaf
	var out page
	out.reset()
	last := []byte(nil)
	for i := range pg.Nodes {
		if err := l.add(&out, &pg.Nodes[i], last); err != nil {
			return nil, errors.Join(err, errors.New("decoded and not encodable"))
		}
		last = []byte(pg.Nodes[i].Name)
	}
	return out.finish(kindTree, 0), nil
}

func TestTruncated(t *testing.T) {
	for _, p := range samples(t) {
		_, err := decodeAny(p)
		require.NoError(t, err)
		for n := range p {
			_, err := decodeAny(p[:n])
			require.ErrorIs(t, err, format.ErrCorrupt, "%d of %d bytes", n, len(p))
		}
		_, err = decodeAny(append(bytes.Clone(p), 0))
		require.ErrorIs(t, err, format.ErrCorrupt)
	}
}

// Pages carry no checksum, because a blob is verified against its ID before it is decoded. What a flipped bit must
// never do is make the decoder panic, or pass with a node that could not be stored again.
func TestFlippedBits(t *testing.T) {
	for _, p := range samples(t) {
		spectest.FlipBits(p, func(at int, mutated []byte) {
			if _, err := decodeAny(mutated); err != nil {
				require.True(t, isTyped(err), "byte %d: %v", at, err)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	row := func(first, times byte, rest ...byte) []byte { return append([]byte{first, times}, rest...) }
	leafPage := func(count, names uint64, rows ...[]byte) []byte {
		p := wire.AppendUvarint(wire.AppendUvarint([]byte{kindTree, Version, 0, 0}, count), names)
		return append(p, bytes.Join(rows, nil)...)
	}
	fifo := byte(Fifo) | rowSameOwner
	linked := func(typ, links, fs byte) []byte {
		return row(typ|rowSameOwner|rowRare, rowLinks, rareFS, 0x01, 'a', 0, links, fs)
	}
	ok := row(fifo, 0, 0x01, 'a', 0)
	_, err := DecodePage(leafPage(1, 1, ok))
	require.NoError(t, err)
	_, err = DecodePage(leafPage(1, 1, linked(fifo, 2, 7)))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		page []byte
		want error
	}{
		"empty":                {nil, format.ErrCorrupt},
		"a list":               {[]byte{kindList, Version, 0, 0, 0}, format.ErrCorrupt},
		"version 0":            {[]byte{kindTree, 0, 0, 0, 0, 0}, format.ErrCorrupt},
		"version 2":            {[]byte{kindTree, 2, 0, 0, 0, 0}, format.ErrUnsupported},
		"level":                {[]byte{kindTree, 1, maxLevel + 1, 0, 0, 0}, format.ErrCorrupt},
		"flags":                {[]byte{kindTree, 1, 0, 1, 0, 0}, format.ErrUnsupported},
		"absurd count":         {leafPage(1<<60, 1, ok), format.ErrCorrupt},
		"absurd names":         {leafPage(1, 1<<60, ok), format.ErrCorrupt},
		"names too long":       {leafPage(1, 2, ok), format.ErrCorrupt},
		"names too short":      {leafPage(1, 0, ok), format.ErrCorrupt},
		"type 0":               {leafPage(1, 1, row(rowSameOwner, 0, 0x01, 'a', 0)), format.ErrCorrupt},
		"mount point":          {leafPage(1, 1, row(fifo|rowRare, 0, rareMount, 0x01, 'a', 0)), format.ErrCorrupt},
		"no name":              {leafPage(1, 0, row(fifo, 0, 0x00, 0, 0)), format.ErrCorrupt},
		"slash":                {leafPage(1, 1, row(fifo, 0, 0x01, '/', 0)), format.ErrCorrupt},
		"dot":                  {leafPage(1, 1, row(fifo, 0, 0x01, '.', 0)), format.ErrCorrupt},
		"shares with nothing":  {leafPage(1, 2, row(fifo, 0, 0x11, 'a', 0)), format.ErrCorrupt},
		"same name twice":      {leafPage(2, 2, ok, ok), format.ErrCorrupt},
		"descending names":     {leafPage(2, 2, row(fifo, 0, 0x01, 'b', 0), ok), format.ErrCorrupt},
		"rare flag":            {leafPage(1, 1, row(fifo|rowRare, 0, 0x80, 0x01, 'a', 0)), format.ErrUnsupported},
		"no file system":       {leafPage(1, 1, linked(fifo, 2, 0)), format.ErrCorrupt},
		"needless file system": {leafPage(1, 1, linked(fifo, 1, 7)), format.ErrCorrupt},
		"file system of a dir": {leafPage(1, 1, linked(byte(Dir), 2, 7)), format.ErrCorrupt},
		"birth form":           {leafPage(1, 1, row(fifo, 6<<timesBornShift, 0x01, 'a', 0)), format.ErrUnsupported},
		"outcome": {
			leafPage(1, 1, row(fifo|rowRare, 0, rareOutcome, 0x01, 'a', 0, 9)), format.ErrUnsupported,
		},
		"content of a fifo": {
			leafPage(1, 1, row(fifo|contentOne<<rowContentShift, 0, 0x01, 'a', 0)), format.ErrUnsupported,
		},
		"form of content": {
			leafPage(1, 1, row(byte(File)|rowSameOwner|6<<rowContentShift, 0, 0x01, 'a', 0, 0)), format.ErrUnsupported,
		},
		"nanoseconds": {
			leafPage(1, 1, row(fifo, modFull, 0x01, 'a', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF)), format.ErrCorrupt,
		},
		"many rows in a large page": {
			leafPage(2, 2, ok, append(row(fifo, 0, 0x01, 'b', 0), make([]byte, cutMax+headroom)...)), format.ErrCorrupt,
		},
		"too large": {make([]byte, MaxPage+1), format.ErrCorrupt},
	} {
		_, err := DecodePage(c.page)
		require.ErrorIs(t, err, c.want, name)
	}
	for name, p := range map[string][]byte{
		"a tree":       {kindTree, Version, 0, 0, 0, 0},
		"absurd count": {kindList, Version, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F},
		"empty hole":   {kindList, Version, 0, 0, 1, holeFlag},
		"zero id":      append([]byte{kindList, Version, 0, 0, 1, 2}, make([]byte, format.IDSize)...),
	} {
		_, err := DecodeListPage(p)
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
}

// What a page makes the decoder allocate is bounded by its length, also where the header promises all that its length
// allows and nothing follows.
func TestAllocationIsBounded(t *testing.T) {
	const size = 200 << 10
	count := uint64(size-20) / minNodeRow
	tree := wire.AppendUvarint(wire.AppendUvarint([]byte{kindTree, Version, 0, 0}, count), count*maxShared)
	list := wire.AppendUvarint([]byte{kindList, Version, 0, 0}, size-20)
	for name, head := range map[string][]byte{"tree": tree, "list": list} {
		p := append(head, make([]byte, size-len(head))...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeAny(p)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, format.ErrCorrupt, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(150*size), name)
	}
}

// Pages that are sound each by itself and do not fit together are refused by Walk and WalkList.
func TestWalkRefuses(t *testing.T) {
	s := shelf{}
	leaf1 := s.build(t, []Node{{Name: "a", Type: Fifo}, {Name: "b", Type: Fifo}})
	leaf2 := s.build(t, []Node{{Name: "c", Type: Fifo}})
	branch := func(level int, refs ...Ref) format.ID {
		b := NewBuilder(s.emit)
		for _, r := range refs {
			b.last = append(b.last[:0], r.Last...)
			require.NoError(t, b.pages.add(1, r.ID, [2]uint64{r.Nodes}))
		}
		id, err := s.emit(b.pages.at(1).finish(kindTree, level))
		require.NoError(t, err)
		return id
	}
	visit := func(*Node) error { return nil }
	one, two := Ref{Last: "b", ID: leaf1, Nodes: 2}, Ref{Last: "c", ID: leaf2, Nodes: 1}
	require.NoError(t, Walk(t.Context(), s.load, branch(1, one, two), visit))
	for name, root := range map[string]format.ID{
		"count":       branch(1, Ref{Last: "b", ID: leaf1, Nodes: 3}, two),
		"last":        branch(1, Ref{Last: "bb", ID: leaf1, Nodes: 2}, two),
		"twice":       branch(1, one, Ref{Last: "c", ID: leaf1, Nodes: 2}),
		"order":       branch(1, Ref{Last: "b", ID: leaf2, Nodes: 1}, Ref{Last: "c", ID: leaf1, Nodes: 2}),
		"level":       branch(2, one, two),
		"not a level": branch(1, Ref{Last: "c", ID: branch(1, one, two), Nodes: 3}),
	} {
		require.ErrorIs(t, Walk(t.Context(), s.load, root, visit), format.ErrCorrupt, name)
	}
	_, err := Lookup(t.Context(), s.load, branch(2, one, two), "a")
	require.ErrorIs(t, err, format.ErrCorrupt)

	stop := errors.New("seen enough")
	require.ErrorIs(t, Walk(t.Context(), s.load, leaf1, func(*Node) error { return stop }), stop)
	require.ErrorContains(t, Walk(t.Context(), s.load, format.ID{1}, visit), "no page")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Walk(ctx, s.load, leaf1, visit), context.Canceled)
	require.ErrorIs(t, WalkList(ctx, s.load, leaf1, func(Chunk) error { return nil }), context.Canceled)
	require.ErrorIs(t, WalkList(t.Context(), s.load, leaf1, func(Chunk) error { return nil }), format.ErrCorrupt)
}

func TestWalkListRefuses(t *testing.T) {
	s := shelf{}
	list := func(level int, row ...byte) format.ID {
		id, err := s.emit(append([]byte{kindList, Version, byte(level), 0, 1}, row...))
		require.NoError(t, err)
		return id
	}
	hole := list(0, 5<<1|holeFlag)
	ref := func(id format.ID, bytes, chunks byte) []byte { return append(bytesOf(id), bytes, chunks) }
	visit := func(Chunk) error { return nil }
	require.NoError(t, WalkList(t.Context(), s.load, list(1, ref(hole, 5, 1)...), visit))
	for name, root := range map[string]format.ID{
		"bytes":  list(1, ref(hole, 6, 1)...),
		"chunks": list(1, ref(hole, 5, 2)...),
		"level":  list(2, ref(hole, 5, 1)...),
	} {
		require.ErrorIs(t, WalkList(t.Context(), s.load, root, visit), format.ErrCorrupt, name)
	}
}

func bytesOf(id format.ID) []byte { return id[:] }

func FuzzDecodePage(f *testing.F) {
	for _, p := range samples(f) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		again, err := decodeAny(p)
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		first, err := DecodePage(p)
		if err != nil {
			return // a list
		}
		second, err := DecodePage(again)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

func FuzzDecodeListPage(f *testing.F) {
	for _, p := range samples(f) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		pg, err := DecodeListPage(p)
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		again, err := decodeAny(p)
		require.NoError(t, err)
		require.Equal(t, p, again, "one list has one encoding")
		require.LessOrEqual(t, len(pg.Chunks)+len(pg.Children), len(p))
	})
}

func TestAChunkOfAnotherLengthIsDamaged(t *testing.T) {
	load := func(context.Context, format.ID) ([]byte, error) { return []byte("abc"), nil }
	p, err := LoadChunk(t.Context(), load, Chunk{Len: 3})
	require.NoError(t, err)
	require.Equal(t, "abc", string(p))
	for _, other := range []uint64{0, 2, 4} {
		_, err = LoadChunk(t.Context(), load, Chunk{Len: other})
		require.ErrorIs(t, err, format.ErrCorrupt)
	}
	missing := func(context.Context, format.ID) ([]byte, error) { return nil, format.ErrUnsupported }
	_, err = LoadChunk(t.Context(), missing, Chunk{})
	require.ErrorIs(t, err, format.ErrUnsupported)
}
