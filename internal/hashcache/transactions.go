package hashcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"sync"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// transactions begins and ends those of a file that may be damaged, or cut short, or overwritten at any moment.
//
// bbolt panics at what it cannot believe, and a page of the mapping that is not there any more is a fault of the processor.
// Both are caught (guard); but a panic while a transaction begins leaves locks of bbolt behind, for which whoever ends or
// commits one would wait for ever. So the head of the file is read and proven before each begin, and when one panics all
// the same, the locks are taken back.
type transactions struct {
	beginning sync.Mutex
	meta      [metaSize + 8]byte // room for a meta page and its checksum, of whoever holds beginning
}

const (
	// metaAt is where the first of the two meta pages has its content, behind the header of the page, and metaSize how long
	// that is up to its checksum.
	metaAt   = 16
	metaSize = 56
)

// begin begins a transaction.
func (c *Cache) begin(writable bool) (tx *bolt.Tx, err error) {
	s := &c.txs
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if c.damaged.Load() {
		return nil, ErrDamaged
	}
	if err := c.headSound(); err != nil {
		return nil, err
	}
	defer func() {
		if tx == nil && err == nil { // a panic
			c.damaged.Store(true)
			if !writable {
				unlock(c.db)
			}
		}
	}()
	return c.db.Begin(writable)
}

// unlock takes back what a transaction that reads has locked when it panics as it begins: it looks at the meta pages behind
// two locks, and has no other way to fail there. One that writes takes back its own.
func unlock(db *bolt.DB) {
	locks := reflect.ValueOf(db).Elem()
	(*sync.RWMutex)(locks.FieldByName("mmaplock").Addr().UnsafePointer()).RUnlock()
	(*sync.Mutex)(locks.FieldByName("metalock").Addr().UnsafePointer()).Unlock()
}

// end ends a transaction without changing anything. One that was committed is left alone.
func (c *Cache) end(tx *bolt.Tx) error {
	if err := tx.Rollback(); err != nil && tx.DB() != nil {
		return err
	}
	return nil
}

// headSound finds out whether the file begins with at least one meta page that can be believed. It reads no more of them
// than it needs: they have just been in memory, and no gate is asked.
func (c *Cache) headSound() error {
	for _, at := range [...]int64{metaAt, int64(c.pageSize) + metaAt} {
		meta := c.txs.meta[:]
		n, err := c.file.ReadAt(meta, at)
		switch {
		case errors.Is(err, os.ErrClosed):
			return bolterrors.ErrDatabaseNotOpen
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		case n < len(meta):
			continue
		}
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaSize]) // never fails
		if binary.NativeEndian.Uint64(meta[metaSize:]) == sum.Sum64() {
			return nil
		}
	}
	return fmt.Errorf("its head is gone: %w", ErrDamaged)
}

// read is a transaction that reads.
func (c *Cache) read(do func(tx *bolt.Tx) error) (err error) {
	tx, err := c.begin(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end(tx)) }()
	return do(tx)
}

// change is a transaction that writes.
func (c *Cache) change(do func(tx *bolt.Tx) error) (err error) {
	tx, err := c.begin(true)
	if err != nil {
		return err
	}
	defer func() {
		if tx.DB() != nil {
			err = errors.Join(err, c.end(tx))
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// guard runs an operation on the file. A damaged file makes bbolt panic, or the processor fault where the file is
// shorter than the mapping: both become ErrDamaged, and the cache is not touched again.
func (c *Cache) guard(what string, op func() error) (err error) {
	if c.damaged.Load() {
		return fmt.Errorf("%s: %w", what, ErrDamaged)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, r)
		}
		if errors.Is(err, ErrDamaged) {
			c.damaged.Store(true)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}()
	return op()
}

// update and view are transactions behind the guard.
func (c *Cache) update(what string, change func(tx *bolt.Tx) error) error {
	err := c.commit(true, func() error {
		return c.guard(what, func() error {
			defer c.lookers.end()
			if err := errors.Join(c.lookers.begin(c), c.change(change)); err != nil {
				return err
			}
			return c.read(func(tx *bolt.Tx) error { c.mapped.release(c.db, tx); return nil })
		})
	})
	if errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// commit is one operation of the gate, in which pages are written.
func (c *Cache) commit(certain bool, write func() error) error {
	op := iopolicy.Op{Kind: iopolicy.Sync, Certain: certain}
	if c.private {
		op = iopolicy.Op{Kind: iopolicy.Write} // nothing waits for it
	}
	_, err := c.door.do(op, func(bound int) (int, error) {
		before, fresh := c.taken(), c.db == nil
		err := write()
		n := c.taken() - before
		if n > 0 {
			n += c.pageSize // the page that makes the others count
		}
		if n > 0 && fresh {
			n += 4 * c.pageSize // of an empty file
		}
		if err == nil && n > 0 && c.private {
			err = c.door.push(c.file, 0, 0, bound > 0)
		}
		return n, err
	})
	return err
}

// taken returns how many bytes of pages transactions have taken since the file was opened: each writes those it took.
func (c *Cache) taken() int {
	if c.db == nil || c.damaged.Load() {
		return 0
	}
	stats := c.db.Stats()
	return int(stats.TxStats.GetPageAlloc())
}

func (c *Cache) view(what string, read func(tx *bolt.Tx) error) error {
	return c.guard(what, func() error {
		return c.read(func(tx *bolt.Tx) error {
			err := read(tx)
			c.mapped.looked(c.db, tx, 1)
			return err
		})
	})
}

// guarded is the file as package runs sees it.
type guarded struct{ c *Cache }

func (g guarded) View(what string, read func(tx *bolt.Tx) error) error { return g.c.view(what, read) }

func (g guarded) Update(what string, change func(tx *bolt.Tx) error) error {
	return g.c.update(what, change)
}

func (g guarded) Looked(tx *bolt.Tx) { g.c.mapped.looked(g.c.db, tx, 1) }
