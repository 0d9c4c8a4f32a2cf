package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func isTyped(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)
}

// smallPack has a compressed and a stored frame.
func smallPack(t testing.TB, k *seal.Keys) ([]byte, Table, [][][]byte) {
	t.Helper()
	frames := [][][]byte{
		{bytes.Repeat([]byte("tide"), 20), []byte("mark")},
		{[]byte("one blob, as it is")},
		{bytes.Repeat([]byte{7}, 90)},
	}
	data, table := build(t, k, 1, frames...)
	require.Equal(t, Zstd, table.Frames[0].Codec)
	require.Equal(t, Stored, table.Frames[1].Codec)
	return data, table, frames
}

// region names the part of a pack in which a byte lies.
func region(t Table, size, at int) string {
	last := t.Frames[len(t.Frames)-1]
	switch end := int(last.Offset + last.Sealed); {
	case at < HeaderSize:
		return "header"
	case at < end:
		return "frame"
	case at < size-FooterSize:
		return "trailer"
	}
	return "footer"
}

func TestFlippedBits(t *testing.T) {
	k := testKeys(t)
	data, table, frames := smallPack(t, k)
	o, err := NewOpener(k, table.Kind, table.Salt)
	require.NoError(t, err)
	d, err := NewDecompressor()
	require.NoError(t, err)
	spectest.FlipBits(data, func(at int, mutated []byte) {
		where := region(table, len(data), at)

		read, err := OpenTable(k, int64(len(mutated)), readerAt(mutated))
		if where == "frame" { // the table does not look there
			require.NoError(t, err, "byte %d", at)
			require.Equal(t, table, read)
		} else if at == packVersionOffset && mutated[at] > Version {
			require.ErrorIs(t, err, format.ErrUnsupported, "byte %d", at)
		} else {
			require.ErrorIs(t, err, format.ErrCorrupt, "byte %d", at)
		}

		for i, f := range table.Frames {
			raw, lens, err := d.OpenFrame(o, f.Offset, mutated[f.Offset:][:f.Sealed], nil)
			if at >= int(f.Offset) && at < int(f.Offset+f.Sealed) {
				require.ErrorIs(t, err, format.ErrCorrupt, "byte %d", at)
				require.Nil(t, raw)
				require.Nil(t, lens)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, bytes.Join(frames[i], nil), raw)
		}

		rebuilt, err := Rebuild(k, mutated)
		switch {
		case where == "trailer": // holds nothing that the frames do not
			require.NoError(t, err, "byte %d", at)
			require.Equal(t, table, rebuilt)
		case at == packVersionOffset && mutated[at] > Version:
			require.ErrorIs(t, err, format.ErrUnsupported)
		case where == "footer" && at >= len(data)-FooterSize+footerReservedOffset && at < len(data)-len(footerMagic):
			require.NoError(t, err, "byte %d: reserved bytes of the footer place nothing", at)
			require.Equal(t, table, rebuilt)
		default:
			require.ErrorIs(t, err, format.ErrCorrupt, "byte %d (%s)", at, where)
			for _, f := range rebuilt.Frames { // what is still listed is genuine
				require.Contains(t, table.Frames, f)
			}
			if where == "frame" {
				require.Len(t, rebuilt.Frames, len(table.Frames)-1, "byte %d: one frame is lost, the others are found", at)
			}
		}
	})
}

func TestTruncated(t *testing.T) {
	k := testKeys(t)
	data, table, _ := smallPack(t, k)
	for n := range data {
		cut := data[:n]
		_, err := OpenTable(k, int64(n), readerAt(cut))
		require.ErrorIs(t, err, format.ErrCorrupt, "%d bytes", n)

		whole, ends := 0, n == HeaderSize
		for _, f := range table.Frames {
			if end := int(f.Offset + f.Sealed); end <= n {
				whole, ends = whole+1, ends || end == n
			}
		}
		rebuilt, err := Rebuild(k, cut)
		if ends { // nothing of the rest is there, not even in part
			require.NoError(t, err, "%d bytes", n)
		} else {
			require.ErrorIs(t, err, format.ErrCorrupt, "%d bytes", n)
		}
		require.Len(t, rebuilt.Frames, whole, "%d bytes", n)
		if whole > 0 {
			require.Equal(t, table.Frames[:whole], rebuilt.Frames)
		}
	}
	_, err := OpenTable(k, MaxPack+1, readerAt(data))
	require.ErrorIs(t, err, format.ErrCorrupt)
	_, err = OpenTable(k, int64(len(data))+1, readerAt(append(bytes.Clone(data), 0)))
	require.ErrorIs(t, err, format.ErrCorrupt)
}

func TestFramesAreBoundToTheirPlace(t *testing.T) {
	k := testKeys(t)
	data, table, _ := smallPack(t, k)
	d, err := NewDecompressor()
	require.NoError(t, err)
	f := table.Frames[1]
	sealed := data[f.Offset:][:f.Sealed]

	o, err := NewOpener(k, table.Kind, table.Salt)
	require.NoError(t, err)
	_, _, err = d.OpenFrame(o, f.Offset, sealed, nil)
	require.NoError(t, err)
	_, _, err = d.OpenFrame(o, f.Offset+1, sealed, nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "another offset")
	_, _, err = d.OpenFrame(o, f.Offset, sealed[:len(sealed)-1], nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "cut")
	_, _, err = d.OpenFrame(o, f.Offset, append(bytes.Clone(sealed), 0), nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "a byte too many")

	for name, make := range map[string]func() (*Opener, error){
		"another kind": func() (*Opener, error) { return NewOpener(k, Trees, table.Salt) },
		"another salt": func() (*Opener, error) { return NewOpener(k, table.Kind, [SaltSize]byte{1}) },
		"another key": func() (*Opener, error) {
			other, err := seal.Derive(seal.MasterKey{9})
			require.NoError(t, err)
			return NewOpener(other, table.Kind, table.Salt)
		},
	} {
		o, err := make()
		require.NoError(t, err)
		_, _, err = d.OpenFrame(o, f.Offset, sealed, nil)
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
}

// forge makes a pack whose bytes are authentic and whose meaning is up to mutate, as a newer program or a faulty one
// with the key would write it.
func forge(t *testing.T, k *seal.Keys, mutate func(h *header, frame []byte)) []byte {
	t.Helper()
	b, err := newBuilder(k, Data, testSalt(), nil)
	require.NoError(t, err)
	plain := append([]byte{1, 3}, "abc"...)
	frame := frameHeader{blobs: 1, raw: 3, body: uint32(len(plain) + tagSize)}.appendTo(nil)
	mutate(&b.head, frame)
	copy(b.ad[:], b.head[:])
	copy(b.ad[HeaderSize:], frame)
	b.buf = append(append(append(b.buf[:0], b.head[:]...), frame...), plain...)
	b.sealFrom(HeaderSize+FrameHeaderSize, HeaderSize, nonceFrame, FrameHeaderSize)
	b.frames = []Frame{{Offset: HeaderSize, Sealed: uint32(len(b.buf) - HeaderSize), Raw: 3, Blobs: []Blob{{Len: 3}}}}
	data, _, err := b.Finish()
	require.NoError(t, err)
	return data
}

func TestNewerPrograms(t *testing.T) {
	k := testKeys(t)
	for name, c := range map[string]struct {
		mutate       func(h *header, frame []byte)
		table, frame bool // do these see it
	}{
		"nothing":      {func(*header, []byte) {}, false, false},
		"version":      {func(h *header, _ []byte) { h[packVersionOffset]++ }, true, true},
		"kind":         {func(h *header, _ []byte) { h[packKindOffset] = 7 }, true, true},
		"flags":        {func(h *header, _ []byte) { h[packFlagsOffset+1] = 1 }, true, true},
		"reserved":     {func(h *header, _ []byte) { h[packReservedOffset] = 1 }, true, true},
		"codec":        {func(_ *header, f []byte) { f[frameCodecOffset] = 9 }, false, true},
		"frame byte":   {func(_ *header, f []byte) { f[frameReservedOffset] = 1 }, false, true},
		"frame flags":  {func(_ *header, f []byte) { f[frameFlagsOffset+1] = 0x80 }, false, true},
		"frame flags0": {func(_ *header, f []byte) { f[frameFlagsOffset] = 0x80 }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			data := forge(t, k, c.mutate)
			_, err := OpenTable(k, int64(len(data)), readerAt(data))
			requireUnsupported(t, c.table, err)
			_, err = Rebuild(k, data)
			requireUnsupported(t, c.frame, err)
		})
	}
}

func requireUnsupported(t *testing.T, want bool, err error) {
	t.Helper()
	if want {
		require.ErrorIs(t, err, format.ErrUnsupported)
		require.NotErrorIs(t, err, format.ErrCorrupt)
	} else {
		require.NoError(t, err)
	}
}

// rleFrame is a zstd frame, written by hand, that expands to blocks of 128 KiB of one byte, four bytes each.
func rleFrame(blocks int, size uint32) []byte {
	p := []byte{0x28, 0xB5, 0x2F, 0xFD, 0xA0} // magic; single segment, content size in four bytes
	p = binary.LittleEndian.AppendUint32(p, size)
	for i := range blocks {
		block := uint32(128<<10)<<3 | 1<<1
		if i == blocks-1 {
			block |= 1
		}
		p = append(p, byte(block), byte(block>>8), byte(block>>16), 'z')
	}
	return p
}

func TestBombs(t *testing.T) {
	d, err := NewDecompressor()
	require.NoError(t, err)
	const block = 128 << 10
	body := func(raw uint32, data []byte) []byte {
		lens := wire.AppendUvarint(nil, uint64(raw))
		return append(wire.AppendBytes(nil, lens), data...)
	}
	for name, c := range map[string]struct {
		raw  uint32
		data []byte
		ok   bool
	}{
		"as declared":               {4 * block, rleFrame(4, 4*block), true},
		"declared to both":          {MaxFrameRaw, rleFrame(MaxFrameRaw/block, MaxFrameRaw), true},
		"more than the frame says":  {1000, rleFrame(4, 4*block), false},
		"more than zstd says":       {block, rleFrame(1000, block), false},
		"less than the frame says":  {4 * block, rleFrame(3, 3*block), false},
		"far more than is possible": {block, rleFrame(1, 1<<31), false},
		"two frames, together more": {block, append(rleFrame(1, block), rleFrame(1, block)...), false},
		"two frames, as declared":   {2 * block, append(rleFrame(1, block), rleFrame(1, block)...), true},
		"no zstd at all":            {block, []byte("no zstd at all"), false},
		"nothing":                   {block, nil, false},
	} {
		raw, err := d.decodeBody(frameHeader{codec: Zstd, blobs: 1, raw: c.raw}, body(c.raw, c.data), nil)
		if c.ok {
			require.NoError(t, err, name)
			require.Len(t, raw, int(c.raw), name)
			continue
		}
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
}

func TestLengthsMustAgree(t *testing.T) {
	d, err := NewDecompressor()
	require.NoError(t, err)
	body := func(lens ...byte) []byte { return append(wire.AppendBytes(nil, lens), "abcdef"...) }
	fh := frameHeader{blobs: 2, raw: 6}
	raw, err := d.decodeBody(fh, body(2, 4), nil)
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(raw))
	require.Equal(t, []uint32{2, 4}, d.lens)
	for name, plain := range map[string][]byte{
		"sum too small":   body(2, 3),
		"sum too large":   body(2, 5),
		"one too few":     body(6),
		"one too many":    body(2, 3, 1),
		"long form":       body(2, 0x84, 0),
		"beyond the body": {200, 1, 2},
		"nothing":         {},
		"data missing":    body(2, 4)[:8],
	} {
		_, err := d.decodeBody(fh, plain, nil)
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
	_, err = d.decodeBody(frameHeader{blobs: MaxFrameBlobs, raw: 6}, body(2, 4), nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "more blobs than bytes")
}

func TestRebuildWithoutTrailer(t *testing.T) {
	k := testKeys(t)
	rng := rand.New(rand.NewPCG(11, 12))
	data, table := build(t, k, 1, sampleFrames(rng)...)
	last := table.Frames[len(table.Frames)-1]
	rebuilt, err := Rebuild(k, data[:last.Offset+last.Sealed])
	require.NoError(t, err)
	require.Equal(t, table, rebuilt)

	lost := bytes.Clone(data)
	clear(lost[table.Frames[1].Offset:][:table.Frames[1].Sealed])
	rebuilt, err = Rebuild(k, lost)
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.Equal(t, append(append([]Frame{}, table.Frames[0]), table.Frames[2:]...), rebuilt.Frames)

	// A table with a gap can be kept in an index.
	frames := ReadFrames(wire.NewReader(AppendFrames(nil, rebuilt.Frames)))
	require.Equal(t, rebuilt.Frames, frames)
}

// A forged file full of frame headers must not keep the search busy: it gives up after decrypting wasteFactor times
// the length of the file in vain.
func TestRebuildSearchIsBounded(t *testing.T) {
	k := testKeys(t)
	const n, count = 1 << 20, 1 << 15
	head := newHeader(Data, testSalt())
	data := append(make([]byte, 0, n), head[:]...)
	for range count {
		data = frameHeader{blobs: 1, raw: 1, body: n - 24*count}.appendTo(data)
		data = append(data, 0, 0, 0, 0)
	}
	data = append(data, make([]byte, n-len(data))...)
	o, err := newOpener(k, head)
	require.NoError(t, err)
	d, err := NewDecompressor()
	require.NoError(t, err)
	w := walk{data: data, opener: o, dec: d, hasher: k.Hasher(), credit: wasteFactor * len(data)}
	require.ErrorIs(t, w.run(), format.ErrCorrupt)
	require.Empty(t, w.table.Frames)
	require.Negative(t, w.credit)
	require.Greater(t, w.credit, -len(data)-1)
}

func TestFrameTableRefuses(t *testing.T) {
	row := func(gap, sealed, count uint64, blobs ...uint64) []byte {
		p := wire.AppendUvarint(nil, gap)
		p = wire.AppendUvarint(append(p, byte(Zstd)), sealed)
		p = wire.AppendUvarint(p, count)
		for _, n := range blobs {
			p = append(wire.AppendUvarint(p, n), make([]byte, format.IDSize)...)
		}
		return p
	}
	table := func(frames, blobs uint64, rows ...[]byte) []byte {
		p := wire.AppendUvarint(wire.AppendUvarint(nil, frames), blobs)
		return append(p, bytes.Join(rows, nil)...)
	}
	for name, p := range map[string][]byte{
		"empty":                nil,
		"more frames than fit": table(1<<40, 1, row(0, 100, 1, 5)),
		"more blobs than fit":  table(1, 1<<40, row(0, 100, 1, 5)),
		"frame without blobs":  table(1, 0, row(0, 100, 0)),
		"frame too short":      table(1, 1, row(0, minSealed-1, 1, 5)),
		"frame too long":       table(1, 1, row(0, FrameHeaderSize+maxBody+1, 1, 5)),
		"behind the end":       table(1, 1, row(MaxPack-100, 100, 1, 5)),
		"blob too long":        table(1, 1, row(0, 100, 1, MaxFrameRaw+1)),
		"frame's sum too long": table(1, 2, row(0, 100, 2, MaxFrameRaw, 1)),
		"fewer blobs":          table(1, 2, row(0, 100, 1, 5), make([]byte, 40)),
		"more blobs":           table(1, 1, row(0, 100, 2, 5, 5)),
	} {
		r := wire.NewReader(p)
		require.Nil(t, ReadFrames(r), name)
		require.ErrorIs(t, r.Err(), format.ErrCorrupt, name)
	}
	r := wire.NewReader(table(1, 1, row(7, 100, 1, 5)))
	require.Len(t, ReadFrames(r), 1)
	require.NoError(t, r.Done())
}

func FuzzDecodeBody(f *testing.F) {
	f.Add(uint8(Stored), uint32(2), uint32(6), append([]byte{2, 2, 4}, "abcdef"...))
	f.Add(uint8(Zstd), uint32(1), uint32(128<<10), append([]byte{3, 0x80, 0x80, 8}, rleFrame(1, 128<<10)...))
	f.Fuzz(func(t *testing.T, codec uint8, blobs, raw uint32, plain []byte) {
		raw %= 1 << 18
		d, err := NewDecompressor()
		require.NoError(t, err)
		out, err := d.decodeBody(frameHeader{codec: Codec(codec), blobs: blobs, raw: raw}, plain, nil)
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.Len(t, out, int(raw))
		require.Len(t, d.lens, int(blobs))
		sum := 0
		for _, n := range d.lens {
			sum += int(n)
		}
		require.Equal(t, int(raw), sum)
	})
}

func FuzzFrameTable(f *testing.F) {
	k := testKeys(f)
	_, table, _ := smallPack(f, k)
	f.Add(AppendFrames(nil, table.Frames))
	f.Add(AppendFrames(nil, nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		r := wire.NewReader(p)
		frames := ReadFrames(r)
		if err := r.Done(); err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.Equal(t, p, AppendFrames(nil, frames), "one table has one encoding")
	})
}

func FuzzOpenPack(f *testing.F) {
	k := testKeys(f)
	data, _, _ := smallPack(f, k)
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add(data[:HeaderSize])
	f.Fuzz(func(t *testing.T, p []byte) {
		_, err := OpenTable(k, int64(len(p)), readerAt(p))
		require.True(t, err == nil || isTyped(err), "%v", err)
		_, err = Rebuild(k, p)
		require.True(t, err == nil || isTyped(err), "%v", err)
	})
}
