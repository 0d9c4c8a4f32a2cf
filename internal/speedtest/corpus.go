package speedtest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

const (
	frameSize = 1 << 20 // as in a repository, about
	frames    = 8
	// usualLevel is the level of frames that are opened: the default of repositories.
	usualLevel = 2
)

// corpus is the input of the processor measurements: eight frames of 1 MiB. Each is half lines of words, a quarter
// table rows in binary, and a quarter random bytes, which stand for photographs and archives. It is the same on every
// machine. Level 2 compresses it to 44 % of its size: the lines to 27 %, the rows to 21 %, and the random bytes not at
// all.
type corpus struct {
	frames [frames][]byte
	cuts   [frames][]pack.Blob // their chunks; IDs are not set
	keys   *seal.Keys
	chunks *chunker.Chunker
	data   []byte // a pack of all frames at the usual level
	table  pack.Table
}

// newCorpus makes the corpus. Its key is fixed, so that the chunk boundaries are.
func newCorpus() (*corpus, error) {
	c := &corpus{keys: seal.Derive(seal.MasterKey{})}
	var err error
	if c.chunks, err = chunker.New(c.keys.ChunkerKey(), chunker.DefaultParams()); err != nil {
		return nil, fmt.Errorf("make chunker: %w", err)
	}
	for i := range c.frames {
		c.frames[i] = frame(uint64(i))
		c.cuts[i] = c.cut(c.frames[i])
	}
	if err := c.pack(); err != nil {
		return nil, fmt.Errorf("make pack: %w", err)
	}
	return c, nil
}

// frame makes one frame.
func frame(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0x7469_6465))
	p := make([]byte, 0, frameSize+512)
	p = appendLines(p, r, frameSize/2)
	p = appendRows(p[:frameSize/2], r, frameSize/4)
	return append(p, noise(seed, frameSize/4)...)
}

// appendLines adds at least n bytes of words. Like in natural language, some words are frequent and most are rare, and
// each has a few frequent successors. So a better match search compresses more.
func appendLines(p []byte, r *rand.Rand, n int) []byte {
	const letters = "eeeettaaooiinnsshhrdlcumwfgypbvk" // roughly by frequency
	words := make([]string, 1500)
	for i := range words {
		word := make([]byte, 2+r.IntN(4)+r.IntN(5))
		for k := range word {
			word[k] = letters[r.IntN(len(letters))]
		}
		words[i] = string(word)
	}
	at := 0
	for end := len(p) + n; len(p) < end; {
		p = append(p, words[at]...)
		p = append(p, "          \n"[r.IntN(11)])
		if r.IntN(4) == 0 {
			at = r.IntN(1 + r.IntN(len(words)))
		} else {
			at = (at*7 + 1 + r.IntN(3)) % len(words) // one of its three frequent successors
		}
	}
	return p
}

// appendRows adds n bytes of rows of 32 bytes: a counter, a rising time, a measured value, a kind.
func appendRows(p []byte, r *rand.Rand, n int) []byte {
	id, at := uint64(r.IntN(1<<20)), uint64(1_700_000_000_000)
	for range n / 32 {
		id++
		at += uint64(r.IntN(1000))
		p = binary.LittleEndian.AppendUint64(p, id)
		p = binary.LittleEndian.AppendUint64(p, at)
		p = binary.LittleEndian.AppendUint64(p, uint64(1<<14+r.IntN(1<<8)))
		p = append(p, "idlebusywaitdone"[4*r.IntN(4):][:4]...)
		p = binary.LittleEndian.AppendUint32(p, 0)
	}
	return p
}

// noise returns n bytes that do not compress.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}

// cut returns the chunks of a frame.
func (c *corpus) cut(p []byte) (out []pack.Blob) {
	for len(p) > 0 {
		n := c.chunks.Next(p, true)
		out = append(out, pack.Blob{Len: uint32(n)})
		p = p[n:]
	}
	return out
}

// pack puts all frames into a pack.
func (c *corpus) pack() error {
	builder := pack.NewBuilder(c.keys, pack.Data, nil)
	compressor, err := pack.NewCompressor(usualLevel, 1<<20)
	if err != nil {
		return err
	}
	for i, raw := range c.frames {
		codec, data := compressor.Compress(nil, raw)
		if err := builder.Append(&pack.Payload{Codec: codec, Blobs: c.cuts[i], Raw: frameSize, Data: data}); err != nil {
			return err
		}
	}
	c.data, c.table, err = builder.Finish()
	return err
}
