package pack

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

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

// newerHeader reports whether a changed byte of the header looks like a newer program's before its key is used.
func newerHeader(at int, mutated []byte) bool {
	switch at {
	case packVersionOffset:
		return mutated[at] > Version
	case packFlagsOffset:
		return mutated[at] == packFlagPublicKey
	}
	return at == packEpochOffset
}

func TestFlippedBits(t *testing.T) {
	k := testKeys(t)
	data, table, frames := smallPack(t, k)
	o := NewOpener(k, table.Kind, table.Salt)
	d := NewDecompressor()
	spectest.FlipBits(data, func(at int, mutated []byte) {
		where := region(table, len(data), at)

		read, err := OpenTable(k, format.ID{}, int64(len(mutated)), readerAt(mutated))
		if where == "frame" { // the table does not look there
			require.NoError(t, err, "byte %d", at)
			require.Equal(t, table, read)
		} else if newerHeader(at, mutated) {
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
				raw, lens, err = d.OpenFrameInPlace(o, f.Offset, bytes.Clone(mutated[f.Offset:][:f.Sealed]), nil)
				require.ErrorIs(t, err, format.ErrCorrupt, "byte %d in place", at)
				require.Nil(t, raw)
				require.Nil(t, lens)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, bytes.Join(frames[i], nil), raw)
		}

		rebuilt, err := Rebuild(k, format.ID{}, mutated)
		switch {
		case where == "trailer": // holds nothing that the frames do not
			require.NoError(t, err, "byte %d", at)
			require.Equal(t, table, rebuilt)
		case newerHeader(at, mutated):
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
		_, err := OpenTable(k, format.ID{}, int64(n), readerAt(cut))
		require.ErrorIs(t, err, format.ErrCorrupt, "%d bytes", n)

		whole, ends := 0, n == HeaderSize
		for _, f := range table.Frames {
			if end := int(f.Offset + f.Sealed); end <= n {
				whole, ends = whole+1, ends || end == n
			}
		}
		rebuilt, err := Rebuild(k, format.ID{}, cut)
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
	_, err := OpenTable(k, format.ID{}, MaxPack+1, readerAt(data))
	require.ErrorIs(t, err, format.ErrCorrupt)
	_, err = OpenTable(k, format.ID{}, int64(len(data))+1, readerAt(append(bytes.Clone(data), 0)))
	require.ErrorIs(t, err, format.ErrCorrupt)
}

func TestFramesAreBoundToTheirPlace(t *testing.T) {
	k := testKeys(t)
	data, table, _ := smallPack(t, k)
	d := NewDecompressor()
	f := table.Frames[1]
	sealed := data[f.Offset:][:f.Sealed]

	o := NewOpener(k, table.Kind, table.Salt)
	_, _, err := d.OpenFrame(o, f.Offset, sealed, nil)
	require.NoError(t, err)
	_, _, err = d.OpenFrame(o, f.Offset+1, sealed, nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "another offset")
	_, _, err = d.OpenFrame(o, f.Offset, sealed[:len(sealed)-1], nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "cut")
	_, _, err = d.OpenFrame(o, f.Offset, append(bytes.Clone(sealed), 0), nil)
	require.ErrorIs(t, err, format.ErrCorrupt, "a byte too many")

	for name, o := range map[string]*Opener{
		"another kind": NewOpener(k, Trees, table.Salt),
		"another salt": NewOpener(k, table.Kind, [SaltSize]byte{1}),
		"another key":  NewOpener(seal.Derive(seal.MasterKey{9}), table.Kind, table.Salt),
	} {
		_, _, err = d.OpenFrame(o, f.Offset, sealed, nil)
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
}

// forge makes a pack with authentic bytes and any meaning, as a newer program or a faulty one with the key would write
// it.
func forge(t *testing.T, k *seal.Keys, mutate func(h *header, frame, plain []byte)) []byte {
	t.Helper()
	b := newBuilder(k, Data, testSalt(), nil)
	plain := append([]byte{byte(Stored), 1, 3}, "abc"...)
	frame := frameHeader{body: uint32(len(plain) + tagSize)}.appendTo(nil)
	mutate(&b.head, frame, plain)
	b.aead = k.PackAEAD(byte(b.head.kind()), b.head.salt())
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
		mutate       func(h *header, frame, plain []byte)
		table, frame bool // do these see it
	}{
		"nothing":         {func(*header, []byte, []byte) {}, false, false},
		"version":         {func(h *header, _, _ []byte) { h[packVersionOffset]++ }, true, true},
		"kind":            {func(h *header, _, _ []byte) { h[packKindOffset] = 7 }, true, true},
		"parity":          {func(h *header, _, _ []byte) { h[packKindOffset] = byte(Parity) }, true, true},
		"look-up table":   {func(h *header, _, _ []byte) { h[packKindOffset] = byte(Lookup) }, true, true},
		"public key":      {func(h *header, _, _ []byte) { h[packFlagsOffset] = 1 }, true, true},
		"flags":           {func(h *header, _, _ []byte) { h[packFlagsOffset+1] = 1 }, true, true},
		"key epoch":       {func(h *header, _, _ []byte) { h[packEpochOffset] = 1 }, true, true},
		"reserved":        {func(h *header, _, _ []byte) { h[packReservedOffset] = 1 }, true, true},
		"reserved, last":  {func(h *header, _, _ []byte) { h[packSaltOffset-1] = 1 }, true, true},
		"codec":           {func(_ *header, _, p []byte) { p[0] = 9 }, false, true},
		"codec and rest":  {func(_ *header, _, p []byte) { p[0], p[1], p[2] = 9, 0xFF, 0xFF }, false, true},
		"frame reserved":  {func(_ *header, f, _ []byte) { f[frameReservedOffset] = 1 }, false, true},
		"frame reserved1": {func(_ *header, f, _ []byte) { f[frameReservedOffset+1] = 1 }, false, true},
		"frame flags":     {func(_ *header, f, _ []byte) { f[frameFlagsOffset] = 0x80 }, false, true},
		"frame flags1":    {func(_ *header, f, _ []byte) { f[frameFlagsOffset+1] = 0x80 }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			data := forge(t, k, c.mutate)
			_, err := OpenTable(k, format.ID{}, int64(len(data)), readerAt(data))
			requireUnsupported(t, c.table, err)
			_, err = Rebuild(k, format.ID{}, data)
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
	d := NewDecompressor()
	const block = 128 << 10
	body := func(raw uint32, data []byte) []byte {
		return append(wire.AppendUvarint([]byte{byte(Zstd), 1}, uint64(raw)), data...)
	}
	skipped := []byte{0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 'p', 'a', 'd'} // what zstd calls a skippable frame
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
		"padded, as SPEC.md allows": {block, append(rleFrame(1, block), skipped...), true},
		"no zstd at all":            {block, []byte("no zstd at all"), false},
		"nothing":                   {block, nil, false},
	} {
		raw, err := d.decodeBody(body(c.raw, c.data), nil, false)
		if c.ok {
			require.NoError(t, err, name)
			require.Len(t, raw, int(c.raw), name)
			continue
		}
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
}

func TestLengthsMustAgree(t *testing.T) {
	d := NewDecompressor()
	body := func(head ...byte) []byte { return append(append([]byte{byte(Stored)}, head...), "abcdef"...) }
	raw, err := d.decodeBody(body(2, 2, 4), nil, false)
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(raw))
	require.Equal(t, []uint32{2, 4}, d.lens)
	for name, plain := range map[string][]byte{
		"sum too small":        body(2, 2, 3),
		"sum too large":        body(2, 2, 5),
		"one too few":          body(2, 6),
		"one too many":         body(2, 2, 3, 1),
		"no blobs":             body(0),
		"no blobs and no data": {byte(Stored), 0},
		"long form of length":  body(2, 2, 0x84, 0),
		"long form of count":   body(0x82, 0, 2, 4),
		"beyond the body":      {byte(Stored), 200, 1, 2},
		"nothing":              {},
		"codec alone":          {byte(Stored)},
		"data missing":         body(2, 2, 4)[:8],
	} {
		_, err := d.decodeBody(plain, nil, false)
		require.ErrorIs(t, err, format.ErrCorrupt, name)
	}
}

// TestHostileBodies: whatever number an authentic body gives, memory is bounded by its length and by MaxFrameRaw.
func TestHostileBodies(t *testing.T) {
	d := NewDecompressor()
	head := func(codec Codec, numbers ...uint64) (p []byte) {
		p = []byte{byte(codec)}
		for _, n := range numbers {
			p = wire.AppendUvarint(p, n)
		}
		return p
	}
	for name, plain := range map[string][]byte{
		"more blobs than bytes":    append(head(Stored, MaxFrameBlobs), 2, 4),
		"more blobs than any":      append(head(Stored, MaxFrameBlobs+1), make([]byte, MaxFrameBlobs+1)...),
		"2^64-1 blobs":             append(head(Stored, math.MaxUint64), 2, 4),
		"a blob beyond any frame":  head(Zstd, 1, MaxFrameRaw+1),
		"a blob of 2^64-1 bytes":   head(Zstd, 1, math.MaxUint64),
		"blobs beyond any frame":   head(Zstd, 2, MaxFrameRaw, 1),
		"lengths that wrap around": head(Stored, 2, 1<<63, 1<<63),
	} {
		var got error
		allocated := spectest.Allocated(func() { _, got = d.decodeBody(plain, nil, false) })
		require.ErrorIs(t, got, format.ErrCorrupt, name)
		require.Less(t, allocated, uint64(64<<10), name)
	}
}

// TestWhatIsVisible: two packs whose blobs and compressibility differ and whose frames are as long have the same bytes
// outside the seal.
func TestWhatIsVisible(t *testing.T) {
	k := testKeys(t)
	visible := func(p *Payload) (clear []byte) {
		b := newBuilder(k, Data, testSalt(), nil)
		require.NoError(t, b.Append(p))
		data, table, err := b.Finish()
		require.NoError(t, err)
		end := HeaderSize + int(table.Frames[0].Sealed)
		require.Len(t, data, end+trailerStep+FooterSize)
		clear = append(clear, data[:HeaderSize+FrameHeaderSize]...)
		return append(clear, data[len(data)-FooterSize:]...)
	}
	const size = 90
	one := visible(&Payload{Raw: size, Data: make([]byte, size), Blobs: []Blob{{Len: size}}})
	many := &Payload{Raw: 50, Data: make([]byte, 50)}
	for range 41 {
		many.Blobs = append(many.Blobs, Blob{Len: 1})
	}
	many.Blobs[0].Len = 10
	require.Equal(t, one, visible(many), "number of blobs")
	zstd := &Payload{Codec: Zstd, Raw: 100 << 10, Data: make([]byte, size-2), Blobs: []Blob{{Len: 100 << 10}}}
	require.Equal(t, one, visible(zstd), "codec and length before compression")
}

func TestTrailerPadding(t *testing.T) {
	for table, want := range map[int]int{
		2: trailerStep, trailerStep - tagSize: trailerStep, trailerStep - tagSize + 1: 2 * trailerStep,
		10 * trailerStep: 11 * trailerStep,
	} {
		require.Equal(t, want, trailerSize(table), "%d", table)
	}
	k := testKeys(t)
	o := NewOpener(k, Data, testSalt())
	frames := []Frame{{Offset: HeaderSize, Sealed: 100, Raw: 3, Blobs: []Blob{{Len: 3}}}}
	table := AppendFrames(nil, frames)
	for _, zeros := range []int{0, 1, 3 * trailerStep} { // a writer may add as many as it likes
		read, err := o.decodeTrailer(append(bytes.Clone(table), make([]byte, zeros)...), HeaderSize+100)
		require.NoError(t, err, zeros)
		require.Equal(t, frames, read.Frames, zeros)
	}
	_, err := o.decodeTrailer(append(bytes.Clone(table), 0, 0, 1), HeaderSize+100)
	require.ErrorIs(t, err, format.ErrCorrupt, "padded with anything else")
	_, err = o.decodeTrailer(table, HeaderSize+99)
	require.ErrorIs(t, err, format.ErrCorrupt, "frame reaches into the trailer")
}

// A footer that is a lie must not hide frames that are there.
func TestRebuildBelievesFramesFirst(t *testing.T) {
	k := testKeys(t)
	data, table, _ := smallPack(t, k)
	lie := newFooter(int(table.Frames[1].Offset), len(data)-FooterSize-int(table.Frames[1].Offset))
	data = append(data[:len(data)-FooterSize:len(data)-FooterSize], lie[:]...)
	rebuilt, err := Rebuild(k, format.ID{}, data)
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.Equal(t, table, rebuilt)
}

func TestRebuildWithoutTrailer(t *testing.T) {
	k := testKeys(t)
	rng := rand.New(rand.NewPCG(11, 12))
	data, table := build(t, k, 1, sampleFrames(rng)...)
	last := table.Frames[len(table.Frames)-1]
	rebuilt, err := Rebuild(k, format.ID{}, data[:last.Offset+last.Sealed])
	require.NoError(t, err)
	require.Equal(t, table, rebuilt)

	lost := bytes.Clone(data)
	clear(lost[table.Frames[1].Offset:][:table.Frames[1].Sealed])
	rebuilt, err = Rebuild(k, format.ID{}, lost)
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.Equal(t, append(append([]Frame{}, table.Frames[0]), table.Frames[2:]...), rebuilt.Frames)

	// A table with a gap can be kept in an index.
	frames := ReadFrames(wire.NewReader(AppendFrames(nil, rebuilt.Frames)))
	require.Equal(t, rebuilt.Frames, frames)
}

// A forged file full of frame headers must not keep the search busy: it gives up after decrypting wasteFactor times
// the length of the file without a result.
func TestRebuildSearchIsBounded(t *testing.T) {
	k := testKeys(t)
	const n, count = 1 << 20, 1 << 15
	head := newHeader(Data, testSalt())
	data := append(make([]byte, 0, n), head[:]...)
	for range count {
		data = frameHeader{body: n - (FrameHeaderSize+4)*count}.appendTo(data)
		data = append(data, 0, 0, 0, 0)
	}
	data = append(data, make([]byte, n-len(data))...)
	o := newOpener(k, head)
	d := NewDecompressor()
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
