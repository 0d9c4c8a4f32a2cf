package pack

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func isTyped(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)
}

func FuzzDecodeBody(f *testing.F) {
	f.Add(append([]byte{byte(Stored), 2, 2, 4}, "abcdef"...))
	f.Add(append([]byte{byte(Zstd), 1, 0x80, 0x80, 8}, rleFrame(1, 128<<10)...))
	f.Add([]byte{byte(Stored), 1, 0})
	f.Add([]byte{9, 1, 0})
	f.Fuzz(func(t *testing.T, plain []byte) {
		d := NewDecompressor()
		out, err := d.decodeBody(plain, nil, false)
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.NotEmpty(t, d.lens)
		require.LessOrEqual(t, len(out), MaxFrameRaw)
		sum := 0
		for _, n := range d.lens {
			sum += int(n)
		}
		require.Len(t, out, sum)
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
		_, err := OpenTable(k, format.ID{}, int64(len(p)), readerAt(p))
		require.True(t, err == nil || isTyped(err), "%v", err)
		_, err = Rebuild(k, format.ID{}, p)
		require.True(t, err == nil || isTyped(err), "%v", err)
	})
}
