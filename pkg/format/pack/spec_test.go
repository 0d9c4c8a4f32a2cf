package pack

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func TestSpec(t *testing.T) {
	numbers := func(heading, key, value string) map[string]uint64 {
		return spectest.Numbers(t, "SPEC.md", heading, key, value)
	}
	require.Equal(t, map[string]uint64{"frame": nonceFrame, "trailer": nonceTrailer},
		numbers("Keys and nonces", "use", "value"))
	require.Equal(t, map[string]uint64{
		"magic": 0, "version": packVersionOffset, "kind": packKindOffset, "flags": packFlagsOffset,
		"epoch": packEpochOffset, "reserved": packReservedOffset, "salt": packSaltOffset,
	}, numbers("Header", "field", "offset"))
	require.Equal(t, map[string]uint64{
		"magic": 0, "flags": frameFlagsOffset, "reserved": frameReservedOffset, "body": frameBodyOffset,
	}, numbers("Frame", "field", "offset"))
	require.Equal(t, map[string]uint64{
		"trailer": footerTrailerOffset, "length": footerLengthOffset, "reserved": footerReservedOffset,
		"magic": footerMagicOffset,
	}, numbers("Footer", "field", "offset"))
	require.Equal(t, map[string]uint64{
		"version": Version, "header": HeaderSize, "frame header": FrameHeaderSize, "footer": FooterSize,
		"tag": tagSize, "nonce": nonceSize, "shortest frame": minSealed, "largest raw of a frame": MaxFrameRaw,
		"most blobs of a frame": MaxFrameBlobs, "longest pack": MaxPack, "step of the trailer": trailerStep,
		"shortest row of a frame": minFrameRow, "shortest entry of a blob": minBlobRow,
	}, numbers("Limits", "name", "value"))

	for heading, magic := range map[string]string{"Header": packMagic, "Frame": frameMagic, "Footer": footerMagic} {
		require.Equal(t, magic, spectest.Texts(t, "SPEC.md", heading, "field", "content")["magic"])
	}
	for heading, size := range map[string]uint64{"Header": HeaderSize, "Frame": FrameHeaderSize, "Footer": FooterSize} {
		offsets, end := numbers(heading, "field", "offset"), uint64(0)
		lengths := numbers(heading, "field", "bytes")
		for _, row := range spectest.Table(t, "SPEC.md", heading) {
			require.Equal(t, end, offsets[row["field"]], "%s: %s", heading, row["field"])
			end += lengths[row["field"]]
		}
		require.Equal(t, size, end, heading)
	}
	require.Equal(t, map[string]uint64{Data.String(): uint64(Data), Trees.String(): uint64(Trees)},
		numbers("Kinds", "kind", "value"))
	require.Equal(t, map[string]uint64{Stored.String(): uint64(Stored), Zstd.String(): uint64(Zstd)},
		numbers("Codecs", "codec", "value"))
}

// TestGolden keeps the bytes of version 1: what was written once must be readable, and what is written must not change.
func TestGolden(t *testing.T) {
	k := testKeys(t)
	h := k.Hasher()
	zeros := bytes.Repeat([]byte{'z'}, 128<<10)
	b := newBuilder(k, Trees, testSalt(), nil)
	require.NoError(t, b.Append(&Payload{
		Codec: Stored, Raw: 7, Data: []byte("abcdefg"),
		Blobs: []Blob{{ID: h.ID([]byte("abc")), Len: 3}, {ID: h.ID([]byte("defg")), Len: 4}},
	}))
	require.NoError(t, b.Append(&Payload{ // compressed by hand, so that no other version of zstd changes it
		Codec: Zstd, Raw: uint32(len(zeros)), Data: rleFrame(1, uint32(len(zeros))),
		Blobs: []Blob{{ID: h.ID(zeros), Len: uint32(len(zeros))}},
	}))
	written, table, err := b.Finish()
	require.NoError(t, err)

	data := spectest.Golden(t, "pack-v1", written)
	read, err := OpenTable(k, ID(data), int64(len(data)), readerAt(data))
	require.NoError(t, err)
	require.Equal(t, table, read)
	rebuilt, err := Rebuild(k, ID(data), data)
	require.NoError(t, err)
	require.Equal(t, table, rebuilt)

	frames := spectest.Golden(t, "frames-v1", AppendFrames(nil, table.Frames))
	r := wire.NewReader(frames)
	require.Equal(t, table.Frames, ReadFrames(r))
	require.NoError(t, r.Done())
}
