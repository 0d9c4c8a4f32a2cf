// Package hashcache remembers, in one bbolt file on this machine, where the blobs of a repository lie and what its
// directories looked like, so that a backup asks the target about neither. All of it can be made again: the file may be
// deleted at any time, and one that is damaged or belongs to another repository is replaced by an empty one.
//
// # Blobs
//
// See package runs: each merged segment is a sorted run, runs are merged as they gather.
//
// # Directories
//
// See DirBatch: an entry counts only as long as a snapshot that is known to contain its tree is in the repository.
//
// # Damage
//
// What could make a backup believe that something is stored which is not, has a checksum of its own: places of blobs,
// packs, directories, which run wrote and kept them. A page of bbolt has none. What is found damaged, or is not to be read
// or written any more, is an error; GiveUp then ends the use of the file.
//
// The package refuses to know what the index segments are stored in, and what the value of a directory means.
package hashcache

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

	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
	"github.com/tidemark-backup/tidemark/internal/hashcache/wary"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

type (
	// Loc is where a blob lies; its Pack is a number for Cache.Pack.
	Loc = runs.Loc
	// Found is the answer to a lookup.
	Found = runs.Found
)

// PackInfo is what is needed to open frames of a pack.
type PackInfo struct {
	ID   format.ID
	Salt [pack.SaltSize]byte
	Kind pack.Kind
	Size uint64 // bytes
}

const (
	// layout is the version of the buckets below. A file with another one is replaced.
	layout = 3
	// lockWait is how long Open waits for another process: it may be about to end.
	lockWait = 200 * time.Millisecond
	// mapAhead is how far a file may grow before it is mapped anew, in bytes: that of about a million blobs.
	mapAhead = 64 << 20
	// growStep is by how much a file grows more than it has to, in bytes. bbolt's own 16 MiB would be most of a small file.
	growStep = 1 << 20
)

// The buckets, besides those of package runs. Numbers in keys are big-endian, so that keys are in the order of the
// numbers.
const (
	bucketMeta     = "meta"     // names below -> fixed-size values
	bucketSegments = "segments" // segment ID -> nothing
	bucketPacks    = "packs"    // pack number u32 -> PackInfo
	bucketPackIDs  = "pack ids" // pack ID -> pack number u32
	bucketDirs     = "dirs"     // directory key -> entry
	bucketWriters  = "writers"  // generation u32 -> snapshot ID
	bucketKept     = "kept"     // generation u32, chunk number u32 -> bits of references

	metaLayout = "layout" // u32
	metaRepo   = "repo"   // 16 bytes
	metaDirs   = "dirs"   // dirState
	metaNote   = "note"   // of the last DirBatch; missing: none
)

func packBuckets() []string { return []string{bucketSegments, bucketPacks, bucketPackIDs} }

func dirBuckets() []string { return []string{bucketDirs, bucketWriters, bucketKept} }

func bucket(tx *bolt.Tx, name string) *bolt.Bucket { return tx.Bucket([]byte(name)) }

// Cache is an open cache. It is safe for concurrent use.
type Cache struct {
	path    string
	door    Door
	private bool
	file    *os.File // of db, which closes it
	db      *bolt.DB
	note    string

	pageSize int         // of db
	opened   int64       // bytes of the file when it was opened; 0: it is new
	identity os.FileInfo // of the file
	txs      transactions

	write   sync.Mutex // held by whoever changes blobs or directories, over several transactions
	blobs   *runs.Index
	live    atomic.Pointer[liveSet]
	mapped  residence
	lookers lookers
	dirStep int // dirsPerCommit, which tests make smaller
	damaged atomic.Bool
	discard atomic.Bool // the file is removed at Close
	told    atomic.Bool

	nameless atomic.Bool // the name of the file was removed: whatever has it now is of another, be it with the same inode
}

// Open opens the cache file of a repository, and makes it if it is missing. A file that is damaged, of another version
// or of another repository is replaced by an empty one, which Note tells. If another process holds the file, the error
// is ErrBusy.
func Open(path string, repo [16]byte, door Door) (*Cache, error) {
	if err := door.look(func() error { return os.MkdirAll(filepath.Dir(path), 0o700) }); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	c, err := open(path, repo, door, false)
	if err == nil || errors.Is(err, ErrBusy) || !replaceable(err) {
		return c, err
	}
	why := err
	err = door.look(func() error { return os.Remove(path) })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace cache: %w", err)
	}
	if c, err = open(path, repo, door, false); err != nil {
		return nil, err
	}
	c.note = fmt.Sprintf("the local cache was replaced by an empty one: %v", why)
	return c, nil
}

// OpenTemp makes an empty cache in folder dir that nobody else sees and that is gone when it is closed, or when the
// process ends in whatever way: its file has no name. Nothing waits for it to be on the disk. The folder is made if it is
// missing.
func OpenTemp(dir string, repo [16]byte, door Door) (*Cache, error) {
	var f *os.File
	err := door.look(func() (err error) {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		f, err = os.CreateTemp(dir, "cache-*.tmp")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make temporary cache: %w", err)
	}
	path := f.Name()
	c, err := open(path, repo, door, true)
	if err = errors.Join(err, f.Close(), os.Remove(path)); err != nil { // removed also when door is closed
		if c != nil {
			err = errors.Join(err, c.db.Close())
		}
		return nil, fmt.Errorf("make temporary cache: %w", err)
	}
	return c, nil
}

// Note returns a sentence for the person at the screen about what happened to the cache, or "".
func (c *Cache) Note() string { return c.note }

// Discard has Close remove the file, for one who knows that what it says is wrong; it can be used until then. It reports
// whether that is news.
func (c *Cache) Discard() bool { return !c.private && !c.discard.Swap(true) }

// Tell reports true once: several find out that the cache is of no use any more, and one of them is to say so.
func (c *Cache) Tell() bool { return !c.told.Swap(true) }

// Grown reports whether most of the file is of this run: then it is not worth the room that it takes from a full disk.
func (c *Cache) Grown() bool {
	st, err := c.file.Stat()
	return c.private || err != nil || st.Size() > 2*c.opened
}

// SharesDisk reports whether a folder lies on the disk of the cache.
func (c *Cache) SharesDisk(dir string) bool {
	same := false
	_ = c.door.look(func() error {
		there, err := os.Stat(dir)
		same = err == nil && device(there) == device(c.identity)
		return err
	})
	return same
}

// device returns what a file lies on.
func device(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

// GiveUp ends the use of the file and removes it, so that its room is free at once. All that is asked of the cache from now
// on fails with ErrDamaged, and Close does no more.
func (c *Cache) GiveUp() {
	c.write.Lock()
	defer c.write.Unlock()
	if c.damaged.Swap(true) {
		return // Close removes the name
	}
	_ = c.remove()
	// Who reads just now comes to an end first.
	_ = c.guardEnd(func() error { return errors.Join(c.lookers.begin(c), c.db.Close()) })
}

// Close releases the file. A damaged one is removed.
func (c *Cache) Close() error {
	if c.damaged.Load() {
		// bbolt may hold locks that a panic left behind: closing could wait for ever. The descriptor goes with the process.
		return c.remove()
	}
	var err error
	if c.discard.Load() { // while it is locked: afterwards it could be the file of another process
		err = c.remove()
	}
	err = errors.Join(err, c.guardEnd(func() error { return errors.Join(c.lookers.begin(c), c.db.Close()) }))
	if err != nil {
		return fmt.Errorf("close cache: %w", err)
	}
	return nil
}

// guardEnd runs what ends the use of the file; that it is damaged is of no interest any more.
func (c *Cache) guardEnd(end func() error) (err error) {
	defer func() {
		if recover() != nil {
			c.damaged.Store(true)
			err = c.remove()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return end()
}

// remove takes the name of the file away, if it is still the name of this file.
func (c *Cache) remove() error {
	if c.private || c.nameless.Swap(true) {
		return nil
	}
	now, err := os.Lstat(c.path)
	if err == nil && c.identity != nil && !os.SameFile(now, c.identity) {
		return nil
	}
	if err == nil {
		err = os.Remove(c.path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove damaged cache: %w", err)
	}
	return nil
}

func open(path string, repo [16]byte, door Door, private bool) (*Cache, error) {
	c := &Cache{path: path, door: door, private: private, dirStep: dirsPerCommit}
	c.mapped.enough = mappedEnough
	c.blobs = runs.New(guarded{c})
	err := c.commit(false, func() error { return c.openFile(repo) })
	if err == nil {
		return c, nil
	}
	if c.db != nil && !c.damaged.Load() {
		err = errors.Join(err, c.db.Close())
	}
	return nil, err
}

// openFile opens the file, or makes it.
func (c *Cache) openFile(repo [16]byte) error {
	private := c.private
	return c.guard("open cache", func() (err error) {
		c.db, err = bolt.Open(c.path, 0o600, &bolt.Options{
			OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
				if c.file, err = os.OpenFile(path, flag, mode); err != nil {
					return nil, err
				}
				if c.identity, err = c.file.Stat(); err != nil {
					return nil, errors.Join(err, c.file.Close())
				}
				if !c.identity.Mode().IsRegular() {
					return nil, errors.Join(errNoFile, c.file.Close())
				}
				c.opened = c.identity.Size()
				return c.file, nil
			},
			// While a file grows beyond its mapping, a commit copies every key and value that it holds to the heap, and waits for
			// all who read. This is room in the address space, not memory.
			InitialMmapSize: mapAhead,

			Timeout:        lockWait,
			FreelistType:   bolt.FreelistMapType,
			NoSync:         private,
			NoGrowSync:     private,
			NoFreelistSync: private, // otherwise written with each commit, so that opening need not scan the file
		})
		if errors.Is(err, bolterrors.ErrTimeout) {
			return ErrBusy
		}
		if err != nil {
			return err
		}
		c.db.AllocSize = growStep
		c.pageSize = c.db.Info().PageSize
		return c.prepare(repo)
	})
}

// replaceable tells a file that is of no use, or cannot be read, from a disk that is full or a folder that refuses us.
func replaceable(err error) bool {
	var errno syscall.Errno // of the disk, the folder, the memory
	return !errors.Is(err, ErrBusy) && !errors.Is(err, ErrStopped) &&
		(!errors.As(err, &errno) || errno == syscall.EIO || errors.Is(err, ErrDamaged))
}

// prepare makes the buckets of a new file, or finds that an old one is not ours.
func (c *Cache) prepare(repo [16]byte) error {
	fresh := false
	err := c.read(func(tx *bolt.Tx) error {
		meta := bucket(tx, bucketMeta)
		if meta == nil {
			name, _ := wary.First(tx.Cursor())
			if fresh = name == nil; !fresh {
				return errForeign
			}
			return nil
		}
		if v := meta.Get([]byte(metaLayout)); len(v) != 4 || binary.BigEndian.Uint32(v) != layout {
			return errForeign
		}
		if !bytes.Equal(meta.Get([]byte(metaRepo)), repo[:]) {
			return errForeign
		}
		for _, name := range slices.Concat(packBuckets(), dirBuckets(), runs.Buckets()) {
			if bucket(tx, name) == nil {
				return ErrDamaged
			}
		}
		return nil
	})
	if err != nil || !fresh {
		return err
	}
	return c.change(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket([]byte(bucketMeta))
		if err != nil {
			return err
		}
		if err := runs.Create(tx); err != nil {
			return err
		}
		for _, name := range slices.Concat(packBuckets(), dirBuckets()) {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		if err := (&dirState{}).write(tx); err != nil {
			return err
		}
		if err := meta.Put([]byte(metaRepo), repo[:]); err != nil {
			return err
		}
		return meta.Put([]byte(metaLayout), number(layout))
	})
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(make([]byte, 0, 4), n) }
