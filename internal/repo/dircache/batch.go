package dircache

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/extsort"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// batchBytes is how many bytes of a batch are buffered in memory before they go to the temporary file.
	batchBytes = 4 << 20
	// entryOverhead is the memory in bytes of a buffered entry besides its value.
	entryOverhead = keySize + extsort.Overhead
)

// Batch gathers what one backup learns about directories.
//
// An entry may count only while its tree cannot be pruned, that is, while a snapshot that contains the tree is in the
// repository. At first this is the snapshot of the run that wrote the entry. Unchanged directories are not written
// again, and that snapshot is forgotten eventually, although newer snapshots contain the same trees. Therefore each run
// also records which entries it used unchanged (Keep): one bit for each Ref, in a bitmap of the run. For 2.5 million
// directories the bitmap takes 300 KiB. An entry counts if the snapshot of the run that wrote it, or of any run that
// kept it, is in the repository. Otherwise the lookup is a miss, which costs a comparison with the parent snapshot.
//
// Nothing is visible before Commit, which runs after the snapshot is saved. The entries of an interrupted run are lost,
// and those of earlier runs remain. Until Commit, entries lie in sorted runs in a temporary file.
//
// A Batch is safe for concurrent use. Commit or Discard ends it.
type Batch struct {
	c     *Cache
	limit int // bytes buffered

	mu       sync.Mutex
	settled  sync.Cond // signalled when spilling ends
	buffer   extsort.Buffer
	spare    extsort.Buffer   // the next buffer, empty
	file     *cachefile.Plain // of runs
	runs     *extsort.Runs    // nil until the buffer was full once; belongs to the goroutine that spills
	spilling bool             // a goroutine writes a full buffer to the file, without mu
	failed   error            // why spilling failed
	count    uint64           // entries, also several of one key
	kept     map[uint32]bitmap
	ended    bool
}

// NewBatch begins a batch.
func (c *Cache) NewBatch() *Batch {
	empty := extsort.Buffer{KeySize: keySize}
	b := &Batch{c: c, limit: batchBytes, kept: make(map[uint32]bitmap), buffer: empty, spare: empty}
	b.settled.L = &b.mu
	return b
}

// Put stores the value of a directory whose tree the snapshot of this run will contain. Of two values for one key, the
// later counts. While the gate delays the temporary file, other callers continue until a second buffer is full.
func (b *Batch) Put(key [16]byte, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err() == nil && b.full(len(value)) {
		if b.spilling {
			b.settled.Wait()
		} else {
			b.spill()
		}
	}
	if err := b.err(); err != nil {
		return fmt.Errorf("remember directory: %w", err)
	}
	b.buffer.Add(key[:], value)
	b.count++
	return nil
}

// err returns why the batch accepts no more entries.
func (b *Batch) err() error {
	if b.failed == nil && b.ended {
		return errEnded
	}
	return b.failed
}

// full reports whether a value of n bytes does not fit into the buffer.
func (b *Batch) full(n int) bool {
	return b.buffer.Size()+n+entryOverhead > b.limit && b.buffer.Len() > 0
}

// Keep records that the snapshot of this run will contain the tree of an entry.
func (b *Batch) Keep(ref Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	n := uint32(ref / bitsPerChunk)
	chunk := b.kept[n]
	if chunk == nil {
		chunk = make(bitmap, bitsPerChunk/8)
		b.kept[n] = chunk
	}
	i := ref % bitsPerChunk
	chunk[i/8] |= 1 << (i % 8)
}

// Discard drops the batch. After Commit it does nothing.
func (b *Batch) Discard() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end()
}

// end waits for a spill in progress and releases everything.
func (b *Batch) end() error {
	b.ended = true
	for b.spilling {
		b.settled.Wait()
	}
	b.buffer, b.spare, b.kept, b.runs = extsort.Buffer{}, extsort.Buffer{}, nil, nil
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	if err != nil {
		return fmt.Errorf("close temporary file: %w", err)
	}
	return nil
}

// spill writes the buffer to the temporary file as a sorted run. It releases b.mu, which the caller holds, meanwhile.
func (b *Batch) spill() {
	full := b.buffer
	b.buffer, b.spare = b.spare, extsort.Buffer{}
	b.spilling = true
	b.mu.Unlock()
	err := b.write(&full)
	full.Reset()
	b.mu.Lock()
	b.spilling = false
	b.spare = full
	b.failed = err
	b.settled.Broadcast()
}

func (b *Batch) write(full *extsort.Buffer) error {
	if b.runs == nil {
		f, err := cachefile.OpenTempFile(b.c.dir, b.c.io)
		if err != nil {
			return err
		}
		b.file, b.runs = f, extsort.New(f, f, keySize)
	}
	return b.runs.Write(full)
}

// sources returns the entries. A batch that was never spilled stays in memory.
func (b *Batch) sources() []extsort.Source {
	if b.runs == nil {
		b.runs = extsort.New(nil, nil, keySize)
	}
	return b.runs.Sources(&b.buffer)
}

// Commit makes the batch count for snapshot, which must be in the repository, and ends it. Cache.Note returns note from
// then on; nil: as before.
func (b *Batch) Commit(snapshot format.ID, note []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.spilling {
		b.settled.Wait()
	}
	if err := b.err(); err != nil {
		return errors.Join(fmt.Errorf("commit directories: %w", err), b.end())
	}
	err := b.c.change("remember directories", func(next *state) (bool, error) {
		next.add(snapshot, b.kept)
		if note != nil {
			next.setValue(noteName, note)
		}
		if b.count == 0 {
			return true, nil
		}
		return true, b.c.merge(next, b)
	})
	return errors.Join(err, b.end())
}
