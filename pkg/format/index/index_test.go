package index

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

func randomID(rng *rand.Rand) (id format.ID) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

func randomPack(rng *rand.Rand, frames int) Pack {
	p := Pack{ID: randomID(rng)}
	p.Table = pack.Table{Kind: pack.KindOf(p.ID), Salt: randomID(rng), Frames: make([]pack.Frame, frames)}
	at := uint32(pack.HeaderSize)
	for i := range p.Table.Frames {
		f := &p.Table.Frames[i]
		at += uint32(rng.IntN(2) * rng.IntN(5000)) // a gap: frames lost
		f.Codec = pack.Codec(rng.IntN(2))
		f.Offset, f.Sealed = at, uint32(1000+rng.IntN(1<<20))
		at += f.Sealed
		for range 1 + rng.IntN(5) {
			b := pack.Blob{ID: randomID(rng), Len: uint32(rng.IntN(1 << 17))}
			f.Blobs = append(f.Blobs, b)
			f.Raw += b.Len
		}
	}
	p.Size = uint64(at) + 100
	return p
}

func randomSegment(rng *rand.Rand, packs int) *Segment {
	s := &Segment{}
	for range packs {
		s.Packs = append(s.Packs, randomPack(rng, 1+rng.IntN(4)))
	}
	for range rng.IntN(4) {
		s.Supersedes = append(s.Supersedes, randomID(rng))
	}
	slices.SortFunc(s.Packs, func(a, b Pack) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(s.Supersedes, format.ID.Compare)
	return s
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		want := randomSegment(rng, rng.IntN(10))
		plain := Encode([]byte("in front"), want)
		require.Equal(t, "in front", string(plain[:8]))
		got, err := Decode(plain[8:])
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := randomSegment(rng, 8)
	s.Supersedes = append(s.Supersedes, randomID(rng), randomID(rng))
	want := Encode(nil, s)
	for range 5 {
		rng.Shuffle(len(s.Packs), func(i, j int) { s.Packs[i], s.Packs[j] = s.Packs[j], s.Packs[i] })
		rng.Shuffle(len(s.Supersedes), func(i, j int) {
			s.Supersedes[i], s.Supersedes[j] = s.Supersedes[j], s.Supersedes[i]
		})
		before := slices.Clone(s.Packs)
		require.Equal(t, want, Encode(nil, s))
		require.Equal(t, before, s.Packs, "the segment stays as it was")
	}
}

func TestTruncated(t *testing.T) {
	plain := Encode(nil, randomSegment(rand.New(rand.NewPCG(3, 4)), 3))
	for n := range plain {
		_, err := Decode(plain[:n])
		require.ErrorIs(t, err, format.ErrCorrupt, "%d bytes", n)
	}
	_, err := Decode(append(plain, 0))
	require.ErrorIs(t, err, format.ErrCorrupt)
}

// A segment has no checksum of its own, because it is sealed. What a flipped bit must never do is make the decoder
// panic, or accept bytes that the encoder would not have written for what it returns.
func TestFlippedBits(t *testing.T) {
	spectest.FlipBits(Encode(nil, randomSegment(rand.New(rand.NewPCG(5, 6)), 3)), func(at int, mutated []byte) {
		s, err := Decode(mutated)
		if err == nil {
			require.Equal(t, mutated, Encode(nil, s), "byte %d", at)
		}
	})
}

func TestRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	valid := Encode(nil, &Segment{})
	require.Len(t, valid, headerSize+2)
	twice := Encode(nil, &Segment{Supersedes: []format.ID{{1}, {1}}})
	p := randomPack(rng, 1)
	same := Encode(nil, &Segment{Packs: []Pack{p, p}})
	small := p
	small.Size = uint64(p.Table.Frames[0].Offset)
	for name, c := range map[string]struct {
		plain []byte
		want  error
	}{
		"version 0":     {[]byte{0, 0, 0, 0, 0, 0}, format.ErrCorrupt},
		"version 2":     {[]byte{2, 0, 0, 0, 0, 0}, format.ErrUnsupported},
		"flags":         {[]byte{1, 1, 0, 0, 0, 0}, format.ErrUnsupported},
		"reserved":      {[]byte{1, 0, 0, 1, 0, 0}, format.ErrUnsupported},
		"many ids":      {[]byte{1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, format.ErrCorrupt},
		"many packs":    {[]byte{1, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, format.ErrCorrupt},
		"repeated id":   {twice, format.ErrCorrupt},
		"repeated pack": {same, format.ErrCorrupt},
		"size":          {Encode(nil, &Segment{Packs: []Pack{small}}), format.ErrCorrupt},
	} {
		_, err := Decode(c.plain)
		require.ErrorIs(t, err, c.want, name)
	}
}

func TestDecodeAllocations(t *testing.T) {
	plain := Encode(nil, randomSegment(rand.New(rand.NewPCG(9, 9)), 100))
	allocs := testing.AllocsPerRun(10, func() {
		if _, err := Decode(plain); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, allocs, float64(2*100+5), "two for each pack")
}

// A long segment is written into memory that is taken once.
func TestEncodeAllocations(t *testing.T) {
	s := randomSegment(rand.New(rand.NewPCG(9, 9)), 100)
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { Encode(nil, s) }), 3.0,
		"the bytes, and the orders of packs and of what is superseded")
	plain := Encode(nil, s)
	require.Less(t, cap(plain), len(plain)*5/4)
}

func goldenSegment() *Segment {
	id := func(b byte) (id format.ID) {
		for i := range id {
			id[i] = b + byte(i)
		}
		return id
	}
	return &Segment{
		Supersedes: []format.ID{id(0x10), id(0x20)},
		Packs: []Pack{
			{ID: id(0x31), Size: 5000, Table: pack.Table{Kind: pack.Data, Salt: id(0x40), Frames: []pack.Frame{
				{Offset: 48, Sealed: 300, Raw: 700, Codec: pack.Zstd, Blobs: []pack.Blob{
					{ID: id(0x50), Len: 200}, {ID: id(0x60), Len: 500},
				}},
				{Offset: 1348, Sealed: 150, Raw: 100, Codec: pack.Stored, Blobs: []pack.Blob{{ID: id(0x70), Len: 100}}},
			}}},
			{ID: id(0x80), Size: 112, Table: pack.Table{Kind: pack.Trees, Salt: id(0x90), Frames: []pack.Frame{}}},
		},
	}
}

func TestGolden(t *testing.T) {
	want := goldenSegment()
	s, err := Decode(spectest.Golden(t, "segment-v1", Encode(nil, want)))
	require.NoError(t, err)
	require.Equal(t, want, s)
}

func TestSpec(t *testing.T) {
	require.Equal(t, map[string]uint64{
		"version":                   Version,
		"header":                    headerSize,
		"least length of a pack":    minPackRow,
		"largest length of a pack":  pack.MaxPack,
		"length of an ID":           format.IDSize,
		"length of a salt":          pack.SaltSize,
		"offset of the first frame": pack.HeaderSize,
	}, spectest.Numbers(t, "SPEC.md", "Constants", "name", "value"))
	require.Equal(t, map[string]uint64{"version": 0, "flags": 1, "reserved": 2},
		spectest.Numbers(t, "SPEC.md", "Header", "field", "offset"))
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(nil, &Segment{}))
	f.Add(Encode(nil, goldenSegment()))
	f.Add(Encode(nil, randomSegment(rand.New(rand.NewPCG(1, 1)), 2)))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := Decode(p)
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.Equal(t, p, append([]byte{}, Encode(nil, s)...), "one content has one encoding")
	})
}

func isTyped(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)
}
