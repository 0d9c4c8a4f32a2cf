package stages

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/corpus"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	frameSize = 1 << 20
	packSize  = 16 << 20
)

func keys(tb testing.TB) *seal.Keys {
	k := seal.Derive(seal.MasterKey{})
	return k
}

// content is one kind of data.
type content struct {
	name string
	data []byte
}

func contents(n int) []content {
	return []content{{"text", corpus.Text(1, n)}, {"machine", corpus.Machine(1, n)}, {"noise", corpus.Noise(1, n)}}
}

// BenchmarkChunk finds cut points.
func BenchmarkChunk(b *testing.B) {
	cutter, err := chunker.New(keys(b).ChunkerKey(), chunker.DefaultParams())
	require.NoError(b, err)
	for _, c := range contents(8 << 20) {
		b.Run(c.name, func(b *testing.B) {
			chunks := 0
			run(b, stage{
				bytes: int64(len(c.data)), before: func() { chunks = 0 },
				do: func() {
					for p := c.data; len(p) > 0; chunks++ {
						p = p[cutter.Next(p, true):]
					}
				},
				counts: func(m metrics) { m(float64(len(c.data))/float64(chunks), "B/chunk") },
			})
		})
	}
}

// BenchmarkHash makes the IDs of blobs of several sizes, 8 MiB of them.
func BenchmarkHash(b *testing.B) {
	h := keys(b).Hasher()
	data := corpus.Noise(1, 8<<20)
	for _, size := range []int{256, 1 << 10, 4 << 10, 64 << 10, frameSize} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			run(b, stage{
				objects: len(data) / size, bytes: int64(len(data)),
				do: func() {
					for p := range slices.Chunk(data, size) {
						h.ID(p)
					}
				},
			})
		})
	}
}

func id(n int) format.ID {
	return seal.FileID(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

const (
	blobsPerPack = 4096
	packsOfIndex = 64
	lookups      = 256 // a batch
)

// segment is an index segment of one pack with blobs that no other has.
func segment(n int) *index.Segment {
	var frames []pack.Frame
	for f := range 16 {
		frame := pack.Frame{Offset: uint32(pack.HeaderSize + f*frameSize), Sealed: frameSize, Raw: 4000 * blobsPerPack / 16}
		for i := range blobsPerPack / 16 {
			frame.Blobs = append(frame.Blobs, pack.Blob{ID: id(n*blobsPerPack + f*blobsPerPack/16 + i), Len: 4000})
		}
		frames = append(frames, frame)
	}
	return &index.Segment{Packs: []index.Pack{{ID: id(-1 - n), Size: packSize + frameSize,
		Table: pack.Table{Kind: pack.Data, Frames: frames}}}}
}

// BenchmarkDedup asks the local index whether blobs are known, a batch of a reader at a time, and enters new ones.
func BenchmarkDedup(b *testing.B) {
	gate := newGate("cache")
	door := localfs.IOContext{Pass: pass(gate)}
	open := func() *blobindex.Cache {
		c := blobindex.NewCache(blobindex.Options{Dir: b.TempDir(), Repo: [16]byte{1},
			IO: func(string) localfs.IOContext { return door }})
		b.Cleanup(c.Close)
		return c
	}
	full := open()
	for n := range packsOfIndex {
		require.NoError(b, full.Merge(id(-1000-n), segment(n)))
	}
	require.NoError(b, full.Publish())
	const known = packsOfIndex * blobsPerPack
	for _, name := range []string{"known", "new"} {
		b.Run(name, func(b *testing.B) {
			first := 0
			if name == "new" {
				first = known
			}
			ids, out := make([]format.ID, lookups), make([]blobindex.Found, lookups)
			for i := range ids {
				ids[i] = id(first + i*known/lookups)
			}
			run(b, stage{objects: lookups, do: func() { require.NoError(b, full.Lookup(ids, out)) }})
			require.Equal(b, name == "known", out[0] != blobindex.Found{})
		})
	}
	b.Run("merge", func(b *testing.B) {
		next, seg := packsOfIndex, &index.Segment{}
		var written uint64
		run(b, stage{
			objects: blobsPerPack,
			before:  func() { next++; seg = segment(next); written = gate.Stats().Moved.Written },
			do:      func() { require.NoError(b, full.Merge(id(-1000-next), seg)) },
			counts: func(m metrics) {
				pages := float64(gate.Stats().Moved.Written-written) / float64(os.Getpagesize())
				m(pages/blobsPerPack, "pages/blob")
			},
		})
	})
}

// BenchmarkCompress compresses frames at every level.
func BenchmarkCompress(b *testing.B) {
	for _, c := range contents(frameSize) {
		for level := 1; level <= 4; level++ {
			b.Run(fmt.Sprintf("%s/level=%d", c.name, level), func(b *testing.B) {
				z, err := pack.NewCompressor(level, 1<<20)
				require.NoError(b, err)
				var out []byte
				run(b, stage{
					bytes: frameSize, do: func() { _, out = z.Compress(out[:0], c.data) },
					counts: func(m metrics) { m(frameSize/float64(len(out)), "ratio") },
				})
			})
		}
	}
}

// payload is a frame of text, compressed at the usual level.
func payload(tb testing.TB, seed uint64) *pack.Payload {
	z, err := pack.NewCompressor(2, 1<<20)
	require.NoError(tb, err)
	codec, data := z.Compress(nil, corpus.Text(seed, frameSize))
	return &pack.Payload{Codec: codec, Raw: frameSize, Blobs: []pack.Blob{{ID: id(int(seed)), Len: frameSize}}, Data: data}
}

// BenchmarkSeal seals frames into a pack of 16 MiB and ends it.
func BenchmarkSeal(b *testing.B) {
	p, k := payload(b, 1), keys(b)
	n := packSize / (len(p.Data) + 4096)
	buf := make([]byte, 0, packSize+frameSize)
	run(b, stage{
		objects: n, bytes: int64(n) * int64(len(p.Data)),
		do: func() {
			pk := pack.NewBuilder(k, pack.Data, buf[:0])
			for range n {
				require.NoError(b, pk.Append(p))
			}
			_, _, err := pk.Finish()
			require.NoError(b, err)
		},
	})
}

// BenchmarkPut stores packs of 16 MiB in a folder, each under its name.
func BenchmarkPut(b *testing.B) {
	st, err := local.Create(filepath.Join(b.TempDir(), "repo"), nil)
	require.NoError(b, err)
	data, n := corpus.Noise(1, packSize), 0
	var name store.Name
	run(b, stage{
		objects: 1, bytes: packSize, system: true,
		before: func() {
			if n > 0 {
				require.NoError(b, st.Delete(context.Background(), name))
			}
			n++
			name = store.Name{Kind: store.Pack, ID: id(n).String()}
		},
		do: func() { require.NoError(b, st.Put(context.Background(), name, data)) },
	})
}

// BenchmarkIndex encodes and decodes an index segment.
func BenchmarkIndex(b *testing.B) {
	seg := segment(1)
	text := index.Encode(nil, seg)
	size := func(m metrics) { m(float64(len(text))/blobsPerPack, "B/blob") }
	b.Run("encode", func(b *testing.B) {
		var out []byte
		run(b, stage{objects: blobsPerPack, do: func() { out = index.Encode(out[:0], seg) }, counts: size})
	})
	b.Run("decode", func(b *testing.B) {
		run(b, stage{objects: blobsPerPack, counts: size, do: func() {
			_, err := index.Decode(text)
			require.NoError(b, err)
		}})
	})
}

// BenchmarkTree builds the tree of a directory of many files, each with one chunk.
func BenchmarkTree(b *testing.B) {
	const files = 5000
	h := keys(b).Hasher()
	z, err := pack.NewCompressor(2, 1<<20)
	require.NoError(b, err)
	var all bytes.Buffer
	t := tree.NewBuilder(func(page []byte) (format.ID, error) {
		all.Write(page)
		return h.ID(page), nil
	})
	nodes := make([]tree.Node, files)
	for i := range nodes {
		nodes[i] = tree.Node{
			Name: fmt.Sprintf("some file %06d.txt", i), Type: tree.File, Mode: 0o644, UID: 1000, GID: 1000,
			Inode: uint64(i + 1<<20),
			Links: 1, Size: uint64(1000 + i*7), ModTime: tree.Time{Sec: 1_700_000_000 + int64(i)},
			Changed: tree.Time{Sec: 1_700_000_100},
			Content: tree.Content{Chunks: []tree.Chunk{{ID: id(i), Len: uint64(1000 + i*7)}}},
		}
	}
	run(b, stage{
		objects: files, before: func() { all.Reset(); t.Reset() },
		do: func() {
			for i := range nodes {
				require.NoError(b, t.Add(&nodes[i]))
			}
			_, err := t.Finish()
			require.NoError(b, err)
		},
		counts: func(m metrics) {
			_, packed := z.Compress(nil, all.Bytes())
			m(float64(all.Len())/files, "B/obj")
			m(float64(len(packed))/files, "packed-B/obj")
		},
	})
}
