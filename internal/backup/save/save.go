// Package save stores what was read: it cuts files into chunks, hashes them, adds those that the repository lacks to
// packs, and builds trees.
package save

import (
	"bytes"
	"errors"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Config is what a Saver works with.
type Config struct {
	Session *repo.Session
	Keys    *seal.Keys
	Ledger  *report.Ledger
	Cutter  *chunker.Chunker
	// ZerosAreHoles makes holes of chunks of zeros, where the holes that the file system reports are not to be believed.
	ZerosAreHoles bool
}

// Saver stores chunks and trees of one run. It is safe for concurrent use.
type Saver struct {
	Config
	trees   sync.Pool    // of *treeWriter
	storing sync.RWMutex // held for reading from a claim until its blob is in a frame
}

// New returns a Saver.
func New(cfg Config) *Saver { return &Saver{Config: cfg} }

// Pause waits until no blob is claimed and not yet in a frame, and delays all that would claim one until Resume. Only
// TreeWhilePaused and Flush may be called in between.
func (s *Saver) Pause() { s.storing.Lock() }

// Resume ends Pause.
func (s *Saver) Resume() { s.storing.Unlock() }

// Flush puts the last, partly filled frames into packs. It is called during a pause, or when all is stored.
func (s *Saver) Flush() error {
	return errors.Join(s.Session.Writer(pack.Trees).Flush(), s.Session.Writer(pack.Data).Flush())
}

// Chunker stores the chunks of files. It belongs to one goroutine and keeps its buffers from piece to piece.
type Chunker struct {
	saver  *Saver
	hasher *seal.Hasher
	writer *session.FrameWriter
	clock  *report.Clock
	spans  []span
	ids    []format.ID
	fresh  []bool
}

// span is one chunk inside a buffer.
type span struct{ off, end uint32 }

// NewChunker returns a Chunker whose time is counted by clock.
func (s *Saver) NewChunker(clock *report.Clock) *Chunker {
	return &Chunker{saver: s, hasher: s.Keys.Hasher(), writer: s.Session.Writer(pack.Data), clock: clock}
}

// Reset begins a new buffer.
func (c *Chunker) Reset() { c.spans = c.spans[:0] }

// At takes the cut points of a buffer that was cut before.
func (c *Chunker) At(cuts []uint32) {
	from := uint32(0)
	for _, cut := range cuts {
		c.spans = append(c.spans, span{from, cut})
		from = cut
	}
}

// Cut cuts buf[off:end] into chunks and returns where the last one ends. More follows unless final is set.
func (c *Chunker) Cut(buf []byte, off, end uint32, final bool) uint32 {
	for off < end {
		length := uint32(c.saver.Cutter.Next(buf[off:end], final))
		if length == 0 {
			break
		}
		c.spans = append(c.spans, span{off, off + length})
		off += length
	}
	return off
}

// Store hashes the chunks of buf and adds those that the repository lacks to the open frame. fresh is their bytes.
func (c *Chunker) Store(buf []byte) (_ []tree.Chunk, fresh uint64, err error) {
	var t report.Tally
	chunks := make([]tree.Chunk, len(c.spans))
	c.ids = c.ids[:0]
	stored := c.spans[:0]
	for i, s := range c.spans {
		chunks[i].Len = uint64(s.end - s.off)
		if c.saver.ZerosAreHoles && isZero(buf[s.off:s.end]) {
			continue
		}
		chunks[i].ID = c.hasher.ID(buf[s.off:s.end])
		c.ids, stored = append(c.ids, chunks[i].ID), append(stored, s)
		t.Bytes.BeforeDedup += chunks[i].Len
	}
	c.spans = stored
	c.fresh = append(c.fresh[:0], make([]bool, len(c.ids))...)
	c.saver.storing.RLock()
	defer c.saver.storing.RUnlock()
	if err := c.saver.Session.Claim(c.ids, c.fresh); err != nil {
		return nil, 0, err
	}
	c.clock.Enter(report.Compress)
	for i, s := range c.spans {
		if !c.fresh[i] {
			t.Blobs.Known++
			continue
		}
		t.Blobs.New++
		t.Bytes.AfterDedup += uint64(s.end - s.off)
		if err := c.writer.Add(c.ids[i], buf[s.off:s.end]); err != nil {
			return nil, 0, err
		}
	}
	t.Bytes.Processed = t.Bytes.AfterDedup
	c.saver.Ledger.Add(&t)
	return chunks, t.Bytes.AfterDedup, nil
}

// isZero reports whether p has only zeros. Other data is mostly recognised by its first byte.
func isZero(p []byte) bool {
	return len(p) == 0 || p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1])
}
