// Package cachefile is the files of the local caches of a repository. Everything in them can be rebuilt, so each may be
// deleted at any time.
//
//	File   a bbolt file that one process reads and writes: the directory cache (package dircache)
//	Plain  written once, then read by any number of processes: a run of the hash cache (package index); temporary files
//
// bbolt pages have no checksum. Values that could make a backup believe that something is stored which is not have one
// each (PutSummed). A file that is found damaged returns ErrDamaged from then on, and is not accessed again.
package cachefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

const (
	// layout is the version of all buckets in the file. A file of another layout is replaced.
	layout = 7
	// lockWait is how long Open waits for another process that holds the file.
	lockWait = 200 * time.Millisecond
	// mapAhead is how far a file may grow before it is mapped again, in bytes: that of about a million blobs.
	mapAhead = 64 << 20
	// growStep is by how many bytes a file grows beyond its need. bbolt's default of 16 MiB would be most of a small
	// file.
	growStep = 1 << 20
)

// The bucket of the file itself.
const (
	bucketMeta = "meta"   // the names below and "value NAME" -> fixed-size values
	metaLayout = "layout" // u32
	metaRepo   = "repo"   // 16 bytes
)

// Table is the set of buckets of a file, which one package owns.
type Table struct {
	Buckets []string // top level
	// Init writes the first values of a new file, whose buckets exist; may be nil.
	Init func(tx *bolt.Tx) error
}

// Bucket returns a top-level bucket.
func Bucket(tx *bolt.Tx, name string) *bolt.Bucket { return tx.Bucket([]byte(name)) }

// Number encodes n as a key. Keys are big-endian, so they sort like the numbers.
func Number(n uint32) []byte { return binary.BigEndian.AppendUint32(make([]byte, 0, 4), n) }

// File is an open cache file. It is safe for concurrent use.
//
// Each write transaction is one gate operation, begun before any lock of the file is taken, because a B+tree update
// cannot be divided. The operation ends with the number of bytes written. Reads of the mapping are page faults and pass
// no gate.
type File struct {
	path string
	io   localfs.IOContext // nothing is written after its context ends, until Close
	file *os.File          // of db, which closes it
	db   *bolt.DB
	note string

	pageSize int         // of db
	opened   int64       // bytes of the file when it was opened; 0: it is new
	identity os.FileInfo // of the file
	mapped   residence
	pool     interface { // of read transactions; nil: none
		beginChange() error
		endChange()
	}

	writing   sync.Mutex         // held by a write transaction
	beginning sync.Mutex         // held while a transaction begins
	meta      [metaSize + 8]byte // buffer for a meta page and its checksum; guarded by beginning

	damaged  atomic.Bool
	nameless atomic.Bool // the name was removed: a file that has it now is another one, even with the same inode
}

// Open opens the cache file of a repository, and creates it if it is missing. A file that is damaged, of another layout
// or of another repository is replaced by an empty one; Note says so. If another process holds the file, the error is
// ErrBusy.
func Open(path string, repo [16]byte, io localfs.IOContext, table Table) (*File, error) {
	if err := io.Names(func() error { return os.MkdirAll(filepath.Dir(path), 0o700) }); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	f, err := open(path, repo, io, table)
	if err == nil || errors.Is(err, ErrBusy) || !replaceable(err) {
		return f, err
	}
	why := err
	err = io.Names(func() error { return os.Remove(path) })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace cache: %w", err)
	}
	if f, err = open(path, repo, io, table); err != nil {
		return nil, err
	}
	f.note = fmt.Sprintf("the local cache was replaced by an empty one: %v", why)
	return f, nil
}

// Path returns the name under which the file was opened.
func (f *File) Path() string { return f.path }

// IO returns the I/O context of the file, for temporary files beside it.
func (f *File) IO() localfs.IOContext { return f.io }

// Note returns a sentence for the user about what happened when the file was opened, or "".
func (f *File) Note() string { return f.note }

// GiveUp ends the use of a file after a failure. A file that this run has mostly written is removed, so that it does
// not keep a disk full. Later calls return ErrDamaged.
func (f *File) GiveUp() {
	if f.damaged.Swap(true) {
		return
	}
	if st, err := f.file.Stat(); err != nil || st.Size() > 2*f.opened {
		_ = f.remove()
	} else {
		f.nameless.Store(true)
	}
	_ = f.shut() // waits for current transactions
}

// Close releases the file. A damaged one is removed, unless others read it too.
func (f *File) Close() error {
	if f.damaged.Load() {
		// A panic may have left bbolt's locks taken, and closing would wait for them. The descriptor is released with
		// the process.
		return f.remove()
	}
	if err := f.shut(); err != nil {
		return fmt.Errorf("close cache: %w", err)
	}
	return nil
}

// shut closes the database. Damage that it finds only removes the file.
func (f *File) shut() (err error) {
	defer func() {
		if recover() != nil {
			f.damaged.Store(true)
			err = f.remove()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if f.pool != nil {
		err = f.pool.beginChange() // never ended: no read transaction is kept any more
	}
	return errors.Join(err, f.db.Close())
}

// remove removes the name of the file, if it still refers to this file.
func (f *File) remove() error {
	if f.nameless.Swap(true) {
		return nil
	}
	now, err := os.Lstat(f.path)
	if err != nil || !os.SameFile(now, f.identity) {
		return nil
	}
	err = os.Remove(f.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove damaged cache: %w", err)
	}
	return nil
}

func open(path string, repo [16]byte, io localfs.IOContext, table Table) (*File, error) {
	f := &File{path: path, io: io}
	err := f.commit(false, func() error {
		return f.guard("open cache", func() error {
			if err := f.openDB(); err != nil {
				return err
			}
			return f.prepare(repo, table)
		})
	})
	if err == nil {
		return f, nil
	}
	if f.db != nil && !f.damaged.Load() {
		err = errors.Join(err, f.db.Close())
	}
	return nil, err
}

// openDB opens the bbolt file, or creates it.
func (f *File) openDB() (err error) {
	opt := bolt.Options{
		OpenFile: f.openFile, Timeout: lockWait, FreelistType: bolt.FreelistMapType,
		// A commit that grows the file beyond its mapping copies all keys and values of the transaction to the heap and
		// waits for all readers. Mapping ahead takes address space, not memory.
		InitialMmapSize: mapAhead,
	}
	f.db, err = bolt.Open(f.path, 0o600, &opt)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	f.db.AllocSize = growStep
	f.pageSize = f.db.Info().PageSize
	return nil
}

func (f *File) openFile(path string, flag int, mode os.FileMode) (file *os.File, err error) {
	if f.file, err = os.OpenFile(path, flag|unix.O_NONBLOCK, mode); err != nil {
		return nil, err
	}
	if f.identity, err = f.file.Stat(); err != nil {
		return nil, errors.Join(err, f.file.Close())
	}
	if !f.identity.Mode().IsRegular() {
		return nil, errors.Join(errNoFile, f.file.Close())
	}
	f.opened = f.identity.Size()
	return f.file, nil
}

// replaceable distinguishes a useless or unreadable file from a full disk or missing permissions.
func replaceable(err error) bool {
	var errno syscall.Errno // of the disk, the folder, the memory
	return !errors.Is(err, ErrBusy) && !errors.Is(err, localfs.ErrStopped) &&
		(!errors.As(err, &errno) || errno == syscall.EIO || errors.Is(err, ErrDamaged))
}

// prepare creates the buckets of a new file, and checks that an old one has them.
func (f *File) prepare(repo [16]byte, table Table) error {
	fresh := false
	err := f.read(func(tx *bolt.Tx) error {
		meta := Bucket(tx, bucketMeta)
		if meta == nil {
			name, _ := First(tx.Cursor())
			if fresh = name == nil; !fresh {
				return errForeign
			}
			return nil
		}
		if !bytes.Equal(meta.Get([]byte(metaLayout)), Number(layout)) ||
			!bytes.Equal(meta.Get([]byte(metaRepo)), repo[:]) {
			return errForeign
		}
		if slices.ContainsFunc(table.Buckets, func(name string) bool { return Bucket(tx, name) == nil }) {
			return ErrDamaged
		}
		return nil
	})
	if err != nil || !fresh {
		return err
	}
	return f.change(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket([]byte(bucketMeta))
		if err != nil {
			return err
		}
		for _, name := range table.Buckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		if table.Init != nil {
			if err := table.Init(tx); err != nil {
				return err
			}
		}
		if err := meta.Put([]byte(metaRepo), repo[:]); err != nil {
			return err
		}
		return meta.Put([]byte(metaLayout), Number(layout))
	})
}
