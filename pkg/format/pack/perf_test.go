package pack

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIncompressibleIsStored(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := random(rng, 1<<20)
	mixed := bytes.Clone(noise)
	copy(mixed[300<<10:], text(rng, 100<<10))
	for level := 1; level <= 2; level++ {
		c := compressor(t, level)
		for name, x := range map[string]struct {
			raw  []byte
			want Codec
		}{
			"noise":            {noise, Stored},
			"short noise":      {noise[:5000], Stored},
			"text":             {text(rng, 1<<20), Zstd},
			"short text":       {text(rng, 500), Zstd},
			"a tenth is text":  {mixed, Zstd},
			"short repetition": {bytes.Repeat(noise[:1000], 1000), Zstd},
			"empty":            {nil, Stored},
			"one byte":         {noise[:1], Stored},
		} {
			codec, out := c.Compress(nil, x.raw)
			require.Equal(t, x.want, codec, "%s, level %d", name, level)
			if codec == Stored {
				require.Len(t, out, len(x.raw))
			} else {
				require.Less(t, len(out), len(x.raw))
			}
		}
	}
}

func TestCompressReusesStorage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	raw := text(rng, 1<<20)
	dst := make([]byte, 0, len(raw))
	for level := 1; level <= 3; level++ {
		c := compressor(t, level)
		_, out := c.Compress(dst, raw)
		require.Same(t, &dst[:1][0], &out[0])
		require.LessOrEqual(t, testing.AllocsPerRun(5, func() { c.Compress(dst, raw) }), 1.0, "level %d", level)
	}
}

func TestFrameAllocations(t *testing.T) {
	k := testKeys(t)
	rng := rand.New(rand.NewPCG(5, 6))
	blobs := make([][]byte, 200)
	for i := range blobs {
		blobs[i] = text(rng, 5000)
	}
	for level := range 2 {
		p := payload(t, k, compressor(t, level), blobs...)
		b := newBuilder(k, Data, testSalt(), make([]byte, 0, 64<<20))
		b.frames = make([]Frame, 0, 100)
		// One for the copy of the list of blobs.
		require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
			if err := b.Append(p); err != nil {
				t.Fatal(err)
			}
		}), 1.0)
		data, table, err := b.Finish()
		require.NoError(t, err)
		o := NewOpener(k, table.Kind, table.Salt)
		d := NewDecompressor()
		f := table.Frames[7]
		dst := make([]byte, 0, int(f.Raw)+decodeSlack)
		// The decoder of zstd takes tables from pools, which forget some of them under the race detector.
		require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
			if _, _, err := d.OpenFrame(o, f.Offset, data[f.Offset:][:f.Sealed], dst); err != nil {
				t.Fatal(err)
			}
		}), float64(4*level), "level %d", level)
	}
}

func TestTableAllocations(t *testing.T) {
	k := testKeys(t)
	rng := rand.New(rand.NewPCG(7, 8))
	frames := make([][][]byte, 50)
	for i := range frames {
		for range 30 {
			frames[i] = append(frames[i], random(rng, 10))
		}
	}
	data, _ := build(t, k, 0, frames...)
	read := readerAt(data)
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() {
		if _, err := OpenTable(k, ID(data), int64(len(data)), read); err != nil {
			t.Fatal(err)
		}
	}), 20.0, "of 50 frames with 1500 blobs")
}
