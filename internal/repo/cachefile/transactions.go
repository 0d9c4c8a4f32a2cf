package cachefile

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

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Transactions begin on a file that may be damaged, truncated or overwritten at any time.
//
// bbolt panics on an invalid page, and an access beyond the end of a truncated file raises SIGBUS. guard recovers
// both. But a panic inside Begin leaves bbolt's locks taken, and a later Rollback or Commit would wait for them
// forever. Therefore begin verifies a meta page with pread first, and releases the locks if Begin panics all the
// same. A lock of our own around Rollback cannot replace that: a call that maps the file again, or closes it, waits
// for open transactions while new ones wait in Begin.
const (
	// metaAt is the offset of the content of the first of two meta pages, behind the page header. metaSize is its
	// length without the checksum.
	metaAt   = 16
	metaSize = 56
)

func (f *File) begin(writable bool) (tx *bolt.Tx, err error) {
	f.beginning.Lock()
	defer f.beginning.Unlock()
	if f.damaged.Load() {
		return nil, ErrDamaged
	}
	if err := f.verifyMeta(); err != nil {
		return nil, err
	}
	defer func() {
		if tx == nil && err == nil { // a panic
			f.damaged.Store(true)
			if !writable {
				unlock(f.db)
			}
		}
	}()
	return f.db.Begin(writable)
}

// unlock releases the locks that a read transaction holds when it panics in Begin, which happens while it reads the
// meta pages. A write transaction releases its own.
func unlock(db *bolt.DB) {
	locks := reflect.ValueOf(db).Elem()
	(*sync.RWMutex)(locks.FieldByName("mmaplock").Addr().UnsafePointer()).RUnlock()
	(*sync.Mutex)(locks.FieldByName("metalock").Addr().UnsafePointer()).Unlock()
}

// end ends a transaction without changes. A committed one is left alone.
func (f *File) end(tx *bolt.Tx) error {
	if err := tx.Rollback(); err != nil && tx.DB() != nil {
		return err
	}
	return nil
}

// verifyMeta checks that one of the two meta pages has a valid checksum. The pages are in the page cache, so this
// passes no gate.
func (f *File) verifyMeta() error {
	for _, at := range [...]int64{metaAt, int64(f.pageSize) + metaAt} {
		meta := f.meta[:]
		n, err := f.file.ReadAt(meta, at)
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

// read runs a read transaction.
func (f *File) read(do func(tx *bolt.Tx) error) (err error) {
	tx, err := f.begin(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end(tx)) }()
	return do(tx)
}

// change runs a write transaction.
func (f *File) change(do func(tx *bolt.Tx) error) (err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	tx, err := f.begin(true)
	if err != nil {
		return err
	}
	defer func() {
		if tx.DB() != nil {
			err = errors.Join(err, f.end(tx))
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// guard runs an operation on the file and turns panics and page faults into ErrDamaged. A damaged file is not accessed
// again.
func (f *File) guard(what string, op func() error) (err error) {
	if f.damaged.Load() {
		return fmt.Errorf("%s: %w", what, ErrDamaged)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, r)
		}
		if errors.Is(err, ErrDamaged) {
			f.damaged.Store(true)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}()
	return op()
}

// Update runs a write transaction. what names the operation in an error.
func (f *File) Update(what string, change func(tx *bolt.Tx) error) error {
	err := f.commit(true, func() error {
		return f.guard(what, func() error {
			if f.pool != nil {
				defer f.pool.endChange()
				if err := f.pool.beginChange(); err != nil {
					return err
				}
			}
			if err := f.change(change); err != nil {
				return err
			}
			return f.read(func(tx *bolt.Tx) error { f.mapped.release(f.db, tx); return nil })
		})
	})
	if errors.Is(err, localfs.ErrStopped) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// View runs a read transaction. what names the operation in an error.
func (f *File) View(what string, read func(tx *bolt.Tx) error) error {
	return f.guard(what, func() error {
		return f.read(func(tx *bolt.Tx) error {
			err := read(tx)
			f.mapped.touched(f.db, tx)
			return err
		})
	})
}

// commit is one gate operation that writes pages.
func (f *File) commit(certain bool, write func() error) error {
	_, err := f.io.Do(iopolicy.Op{Kind: iopolicy.Sync, Certain: certain}, func(int) (int, error) {
		before, fresh := f.allocated(), f.db == nil
		err := write()
		n := f.allocated() - before
		if n > 0 {
			n += f.pageSize // the meta page
		}
		if n > 0 && fresh {
			n += 4 * f.pageSize // the first pages of an empty file
		}
		return n, err
	})
	return err
}

// allocated returns how many bytes of pages transactions have allocated since the file was opened. Each page that a
// transaction allocates is written.
func (f *File) allocated() int {
	if f.db == nil || f.damaged.Load() {
		return 0
	}
	stats := f.db.Stats()
	return int(stats.TxStats.GetPageAlloc())
}
