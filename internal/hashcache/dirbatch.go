package hashcache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// batchBytes is how much of a batch is held before it goes to the temporary file.
	batchBytes = 4 << 20
	// entryBytes is what the bookkeeping of one buffered entry takes.
	entryBytes = 24
)

// DirBatch gathers what one backup learns of directories.
//
// An entry must count only while the tree it names cannot be pruned: while a snapshot that contains the tree is in the
// repository. The snapshot of the run that wrote the entry does. But unchanged directories are not written again, and
// the snapshot that wrote them is forgotten one day although newer snapshots contain the very same trees. Therefore a
// run also tells which entries it used unchanged (Keep): one bit for each, in a bitmap indexed by DirRef, stored under
// the run's number when its snapshot is saved. 2.5 million directories are 300 KiB per run. An entry counts if the run
// that wrote it, or any run that kept it, has its snapshot in the repository. An entry of which no run says so is a
// miss, which costs one comparison with the parent snapshot and no more.
//
// Nothing is visible before Commit, which is called once the snapshot is saved: what an interrupted run gathered is
// gone, and what earlier runs wrote is untouched. Until then entries lie sorted in a temporary file without a name,
// because directory keys are random: put into the B+tree in the order they come, each would rewrite a page.
//
// A DirBatch is safe for concurrent use. It must be ended with Commit or Discard.
type DirBatch struct {
	c     *Cache
	limit int // bytes held

	mu      sync.Mutex
	arena   []byte // values, one after the other
	entries []buffered
	spilled *spill // nil until the buffer was full once
	kept    map[uint32][]byte
	ended   bool
}

type buffered struct {
	key      [16]byte
	off, len uint32 // of the value in the arena
}

// NewDirBatch begins a batch.
func (c *Cache) NewDirBatch() *DirBatch {
	return &DirBatch{c: c, limit: batchBytes, kept: make(map[uint32][]byte)}
}

// Put remembers a directory whose tree the coming snapshot contains. Of two values for one key, the later counts.
func (b *DirBatch) Put(key [16]byte, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return fmt.Errorf("remember directory: %w", errEnded)
	}
	if len(b.arena)+len(value)+(len(b.entries)+1)*entryBytes > b.limit && len(b.entries) > 0 {
		if err := b.flush(); err != nil {
			return fmt.Errorf("remember directory: %w", err)
		}
	}
	b.entries = append(b.entries, buffered{key, uint32(len(b.arena)), uint32(len(value))})
	b.arena = append(b.arena, value...)
	return nil
}

// Keep notes that the coming snapshot contains the very tree that an entry speaks of.
func (b *DirBatch) Keep(ref DirRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	n := uint32(ref / bitsPerChunk)
	chunk := b.kept[n]
	if chunk == nil {
		chunk = make([]byte, bitsPerChunk/8)
		b.kept[n] = chunk
	}
	i := ref % bitsPerChunk
	chunk[i/8] |= 1 << (i % 8)
}

// Discard forgets the batch. After Commit it does nothing.
func (b *DirBatch) Discard() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end()
}

func (b *DirBatch) end() error {
	b.ended = true
	b.arena, b.entries, b.kept = nil, nil, nil
	if b.spilled == nil {
		return nil
	}
	err := b.spilled.f.Close()
	b.spilled = nil
	if err != nil {
		return fmt.Errorf("close temporary file: %w", err)
	}
	return nil
}

// flush writes the buffer to the temporary file as one sorted stretch.
func (b *DirBatch) flush() error {
	if b.spilled == nil {
		f, err := unnamed(filepath.Dir(b.c.path))
		if err != nil {
			return err
		}
		b.spilled = &spill{f: f}
	}
	b.sort()
	if err := b.spilled.write(b.entries, b.arena); err != nil {
		return err
	}
	b.arena, b.entries = b.arena[:0], b.entries[:0]
	return nil
}

// sort orders the buffer by key and keeps the last of each.
func (b *DirBatch) sort() {
	slices.SortStableFunc(b.entries, func(x, y buffered) int { return bytes.Compare(x.key[:], y.key[:]) })
	kept := b.entries[:0]
	for i := range b.entries {
		if i+1 < len(b.entries) && b.entries[i+1].key == b.entries[i].key {
			continue
		}
		kept = append(kept, b.entries[i])
	}
	b.entries = kept
}

// unnamed opens a temporary file that is gone when it is closed.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "directories-*.tmp")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Commit makes the batch count for snapshot, which must be in the repository by now, and ends it.
func (b *DirBatch) Commit(snapshot format.ID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return fmt.Errorf("commit directories: %w", errEnded)
	}
	b.sort()
	source, err := b.merged()
	if err == nil {
		b.c.write.Lock()
		defer b.c.write.Unlock()
		err = (&commit{c: b.c, snapshot: snapshot, source: source, kept: b.kept}).run()
	}
	return errors.Join(err, b.end())
}
