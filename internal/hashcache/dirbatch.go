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
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
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

	mu       sync.Mutex
	settled  sync.Cond // signalled when spilling ends
	buffer   buffer
	spare    buffer // emptied, for the next
	spilled  *spill // nil until the buffer was full once; belongs to the one that spills
	spilling bool   // somebody writes a full buffer to the temporary file, without mu
	failed   error  // that could not be done
	kept     map[uint32][]byte
	note     []byte
	ended    bool
}

// buffer holds entries until there are too many.
type buffer struct {
	arena   []byte // values, one after the other
	entries []buffered
}

type buffered struct {
	key      [16]byte
	off, len uint32 // of the value in the arena
}

// NewDirBatch begins a batch.
func (c *Cache) NewDirBatch() *DirBatch {
	b := &DirBatch{c: c, limit: batchBytes, kept: make(map[uint32][]byte)}
	b.settled.L = &b.mu
	return b
}

// Put remembers a directory whose tree the coming snapshot contains. Of two values for one key, the later counts. Where a
// gate keeps the temporary file waiting, others go on until a second buffer is full.
func (b *DirBatch) Put(key [16]byte, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.over() == nil && b.full(len(value)) {
		if b.spilling {
			b.settled.Wait()
		} else {
			b.spill()
		}
	}
	if err := b.over(); err != nil {
		return fmt.Errorf("remember directory: %w", err)
	}
	b.buffer.entries = append(b.buffer.entries, buffered{key, uint32(len(b.buffer.arena)), uint32(len(value))})
	b.buffer.arena = append(b.buffer.arena, value...)
	return nil
}

// over returns why nothing can be put any more.
func (b *DirBatch) over() error {
	if b.failed == nil && b.ended {
		return errEnded
	}
	return b.failed
}

// full reports whether there is no room for a value of n bytes.
func (b *DirBatch) full(n int) bool {
	used := len(b.buffer.arena) + (len(b.buffer.entries)+1)*entryBytes
	return used+n > b.limit && len(b.buffer.entries) > 0
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

// Note leaves a few bytes for those who come after this batch: see Cache.DirNote.
func (b *DirBatch) Note(note []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note = bytes.Clone(note)
}

// Discard forgets the batch. After Commit it does nothing.
func (b *DirBatch) Discard() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end()
}

// end waits for what is being written.
func (b *DirBatch) end() error {
	b.ended = true
	for b.spilling {
		b.settled.Wait()
	}
	b.buffer, b.spare, b.kept = buffer{}, buffer{}, nil
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

// spill writes the buffer to the temporary file as one sorted stretch. It gives b.mu, which the caller holds, to others
// meanwhile.
func (b *DirBatch) spill() {
	full := b.buffer
	b.buffer, b.spare = b.spare, buffer{}
	b.spilling = true
	b.mu.Unlock()
	full.sort()
	err := b.writeOut(&full)
	b.mu.Lock()
	b.spilling = false
	b.spare = buffer{full.arena[:0], full.entries[:0]}
	b.failed = err
	b.settled.Broadcast()
}

func (b *DirBatch) writeOut(full *buffer) error {
	if b.spilled == nil {
		f, err := unnamed(filepath.Dir(b.c.path), b.c.door)
		if err != nil {
			return err
		}
		b.spilled = &spill{f: f, door: b.c.door}
	}
	return b.spilled.write(full.entries, full.arena)
}

// sort orders the buffer by key and keeps the last of each.
func (b *buffer) sort() {
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
func unnamed(dir string, door Door) (f *os.File, err error) {
	err = door.look(func() error {
		if f, err = os.CreateTemp(dir, "directories-*.tmp"); err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	return f, err
}

// Commit makes the batch count for snapshot, which must be in the repository by now, and ends it.
func (b *DirBatch) Commit(snapshot format.ID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.spilling {
		b.settled.Wait()
	}
	if err := b.over(); err != nil {
		return errors.Join(fmt.Errorf("commit directories: %w", err), b.end())
	}
	b.buffer.sort()
	var source *merger
	_, err := b.c.door.do(iopolicy.Op{Kind: iopolicy.Read}, func(int) (n int, err error) {
		source, err = b.merged() // reads the beginning of each stretch; the rest is read by the operations that write it
		return 0, err
	})
	if err == nil {
		b.c.write.Lock()
		defer b.c.write.Unlock()
		err = (&commit{c: b.c, snapshot: snapshot, source: source, kept: b.kept, note: b.note}).run()
	}
	return errors.Join(err, b.end())
}
