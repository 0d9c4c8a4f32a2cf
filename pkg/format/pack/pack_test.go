package pack

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func testKeys(t testing.TB) *seal.Keys {
	t.Helper()
	k := seal.Derive(seal.MasterKey{1, 2, 3})
	return k
}

func testSalt() (salt [SaltSize]byte) {
	for i := range salt {
		salt[i] = byte(0xA0 + i)
	}
	return salt
}

// text returns n bytes that compress well; random returns n that do not.
func text(rng *rand.Rand, n int) []byte {
	words := []string{"tide ", "mark ", "pack ", "frame ", "blob ", "index\n", "salt ", "0x1f "}
	p := make([]byte, 0, n+8)
	for len(p) < n {
		p = append(p, words[rng.IntN(len(words))]...)
	}
	return p[:n]
}

func random(rng *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

// payload makes a frame of blobs.
func payload(t testing.TB, k *seal.Keys, c *Compressor, blobs ...[]byte) *Payload {
	t.Helper()
	h := k.Hasher()
	p := &Payload{}
	var raw []byte
	for _, b := range blobs {
		p.Blobs = append(p.Blobs, Blob{ID: h.ID(b), Len: uint32(len(b))})
		raw = append(raw, b...)
	}
	p.Raw = uint32(len(raw))
	p.Codec, p.Data = c.Compress(nil, raw)
	return p
}

func compressor(t testing.TB, level int) *Compressor {
	t.Helper()
	c, err := NewCompressor(level, 1<<20)
	require.NoError(t, err)
	return c
}

// build makes a pack of frames of blobs.
func build(t testing.TB, k *seal.Keys, level int, frames ...[][]byte) ([]byte, Table) {
	t.Helper()
	c := compressor(t, level)
	b := newBuilder(k, Data, testSalt(), nil)
	for i, blobs := range frames {
		require.NoError(t, b.Append(payload(t, k, c, blobs...)))
		require.Equal(t, i+1, b.Frames())
	}
	data, table, err := b.Finish()
	require.NoError(t, err)
	return data, table
}

func readerAt(data []byte) func(int64, []byte) error {
	return func(off int64, p []byte) error {
		_, err := bytes.NewReader(data).ReadAt(p, off)
		return err
	}
}

func sampleFrames(rng *rand.Rand) [][][]byte {
	return [][][]byte{
		{text(rng, 3000), text(rng, 1), {}, random(rng, 200)},
		{random(rng, 500)},
		{text(rng, 70000), random(rng, 100000), text(rng, 130000)},
		{{}},
	}
}

func TestRoundTrip(t *testing.T) {
	k := testKeys(t)
	for level := range MaxLevel + 1 {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) {
			frames := sampleFrames(rand.New(rand.NewPCG(1, 2)))
			data, built := build(t, k, level, frames...)
			read, err := OpenTable(k, format.ID{}, int64(len(data)), readerAt(data))
			require.NoError(t, err)
			require.Equal(t, built, read)
			rebuilt, err := Rebuild(k, format.ID{}, data)
			require.NoError(t, err)
			require.Equal(t, built, rebuilt)

			o := NewOpener(k, read.Kind, read.Salt)
			d := NewDecompressor()
			var dst []byte
			for i, f := range read.Frames {
				raw, lens, err := d.OpenFrame(o, f.Offset, data[f.Offset:][:f.Sealed], dst)
				require.NoError(t, err)
				require.Len(t, lens, len(frames[i]))
				require.Len(t, raw, int(f.Raw))
				rest := raw
				for j, want := range frames[i] {
					require.Equal(t, len(want), int(lens[j]))
					require.True(t, bytes.Equal(want, rest[:lens[j]]))
					rest = rest[lens[j]:]
				}
				dst = raw

				spent := bytes.Clone(data[f.Offset:][:f.Sealed])
				again, _, err := d.OpenFrameInPlace(o, f.Offset, spent, nil)
				require.NoError(t, err)
				clear(spent) // the result is no part of it
				require.True(t, bytes.Equal(raw, again))

				spent = bytes.Clone(data[f.Offset:][:f.Sealed])
				buffer := make([]byte, 0, 512<<10)
				within, _, err := d.OpenFrameWithin(o, f.Offset, spent, buffer)
				require.NoError(t, err)
				require.Equal(t, f.Codec, d.Codec())
				require.True(t, bytes.Equal(raw, within))
				if len(raw) > 0 && f.Codec == Stored {
					require.Len(t, within, cap(within), "what is behind it is not buffer for more")
					require.Same(t, &spent[len(spent)-tagSize-len(within)], &within[0], "not copied")
				} else if len(raw) > 0 {
					require.Same(t, &buffer[:1][0], &within[0])
				}
			}
			if level > 0 {
				require.Equal(t, Zstd, read.Frames[0].Codec)
			}
			require.Equal(t, Stored, read.Frames[1].Codec)
		})
	}
}

func TestEmptyPack(t *testing.T) {
	k := testKeys(t)
	data, built := build(t, k, 0)
	read, err := OpenTable(k, format.ID{}, int64(len(data)), readerAt(data))
	require.NoError(t, err)
	require.Empty(t, read.Frames)
	require.Equal(t, built.Salt, read.Salt)
	rebuilt, err := Rebuild(k, format.ID{}, data)
	require.NoError(t, err)
	require.Empty(t, rebuilt.Frames)
}

// A trailer longer than the first read must arrive in pieces, each byte requested once.
func TestLongTrailer(t *testing.T) {
	k := testKeys(t)
	rng := rand.New(rand.NewPCG(3, 4))
	blobs := make([][]byte, 5000)
	for i := range blobs {
		blobs[i] = random(rng, 8)
	}
	data, built := build(t, k, 0, blobs[:10], blobs[10:])
	var asked int
	read, err := OpenTable(k, format.ID{}, int64(len(data)), func(off int64, p []byte) error {
		asked += len(p)
		return readerAt(data)(off, p)
	})
	require.NoError(t, err)
	require.Equal(t, built, read)
	last := built.Frames[len(built.Frames)-1]
	require.Equal(t, len(data)-int(last.Offset+last.Sealed)+HeaderSize, asked)
}

func TestOpenTableReportsReadErrors(t *testing.T) {
	k := testKeys(t)
	data, _ := build(t, k, 0, sampleFrames(rand.New(rand.NewPCG(5, 6)))...)
	for fail := range 2 {
		calls := 0
		_, err := OpenTable(k, format.ID{}, int64(len(data)), func(off int64, p []byte) error {
			if calls++; calls == fail+1 {
				return io.ErrClosedPipe
			}
			return readerAt(data)(off, p)
		})
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, format.ErrCorrupt)
	}
}

func TestBuilderReusesStorage(t *testing.T) {
	k := testKeys(t)
	c := compressor(t, 0)
	p := payload(t, k, c, random(rand.New(rand.NewPCG(7, 8)), 1<<16))
	buf := make([]byte, 0, 1<<20)
	for range 3 {
		b := NewBuilder(k, Trees, buf)
		require.Equal(t, HeaderSize, b.Size())
		for range 3 {
			require.NoError(t, b.Append(p))
		}
		size := b.Size()
		data, table, err := b.Finish()
		require.NoError(t, err)
		require.Same(t, &buf[:1][0], &data[0])
		last := table.Frames[2]
		require.Equal(t, size, int(last.Offset+last.Sealed))
		_, err = OpenTable(k, ID(data), int64(len(data)), readerAt(data))
		require.NoError(t, err)
	}
}

func TestPacksHaveKeysOfTheirOwn(t *testing.T) {
	k := testKeys(t)
	first := NewBuilder(k, Data, nil)
	second := NewBuilder(k, Data, nil)
	p := payload(t, k, compressor(t, 0), []byte("the same content twice"))
	require.NoError(t, first.Append(p))
	require.NoError(t, second.Append(p))
	a, ta, err := first.Finish()
	require.NoError(t, err)
	b, tb, err := second.Finish()
	require.NoError(t, err)
	require.NotEqual(t, ta.Salt, tb.Salt)
	require.NotEqual(t, a[HeaderSize+FrameHeaderSize:ta.Frames[0].Sealed+HeaderSize],
		b[HeaderSize+FrameHeaderSize:tb.Frames[0].Sealed+HeaderSize])
}

func TestBuilderRefuses(t *testing.T) {
	k := testKeys(t)
	require.Panics(t, func() { NewBuilder(k, 3, nil) })
	_, err := NewCompressor(MaxLevel+1, 1<<20)
	require.Error(t, err)

	b := NewBuilder(k, Data, nil)
	one := []Blob{{Len: 3}}
	for name, p := range map[string]*Payload{
		"no blobs":           {},
		"too many blobs":     {Blobs: make([]Blob, MaxFrameBlobs+1)},
		"wrong sum":          {Blobs: one, Raw: 4, Data: []byte("abcd")},
		"wrong stored data":  {Blobs: one, Raw: 3, Data: []byte("abcd")},
		"unknown codec":      {Blobs: one, Raw: 3, Data: []byte("abc"), Codec: 2},
		"too large":          {Blobs: []Blob{{Len: MaxFrameRaw}, {Len: 1}}, Raw: MaxFrameRaw + 1, Codec: Zstd},
		"grown by zstd":      {Blobs: one, Raw: 3, Data: make([]byte, MaxFrameRaw+1), Codec: Zstd},
		"lengths wrap to 32": {Blobs: []Blob{{Len: 1 << 31}, {Len: 1 << 31}}, Raw: 0},
	} {
		require.Error(t, b.Append(p), name)
		require.Equal(t, HeaderSize, b.Size(), name)
	}
	_, _, err = b.Finish()
	require.NoError(t, err)
	require.ErrorIs(t, b.Append(&Payload{Blobs: one, Raw: 3, Data: []byte("abc")}), ErrFinished)
	_, _, err = b.Finish()
	require.ErrorIs(t, err, ErrFinished)
}

func TestBuilderIsFull(t *testing.T) {
	k := testKeys(t)
	b := NewBuilder(k, Data, nil)
	b.table = MaxPack - 3*trailerStep // as if the frames so far had needed so much of the trailer, and a step for this one
	p := payload(t, k, compressor(t, 0), make([]byte, trailerStep))
	require.NoError(t, b.Append(p))
	size := b.Size()
	require.ErrorIs(t, b.Append(p), ErrFull)
	require.Equal(t, size, b.Size())
}
