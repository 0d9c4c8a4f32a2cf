// Package hashcache remembers, in one bbolt file on this machine, where the blobs of a repository lie and what its
// directories looked like, so that a backup asks the target about neither. All of it can be made again: the file may be
// deleted at any time, and one that is damaged or belongs to another repository is replaced by an empty one.
//
// # Blobs
//
// Blob IDs are random, and a B+tree hates random inserts: each would rewrite a page of 4 KiB, 80 GB for 20 million
// blobs. So every merged segment becomes a *run* of its own, sorted, packed into blocks of about forty blobs and written
// once from front to back; as soon as runsPerClass runs of one order of magnitude have gathered, they are merged into a
// longer one. A blob costs some 50 bytes and is rewritten about three times in its life. A lookup asks the runs from the
// newest to the oldest, so that the newest place of a blob wins. A filter of 10 bits per blob, kept beside each run, says
// of nearly all new blobs that a run lacks them without touching the run; at most maxFilters bytes of filters are held.
//
// # Directories
//
// See DirBatch: an entry counts only as long as a snapshot that is known to contain its tree is in the repository.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Loc is where a blob lies.
type Loc struct {
	Pack           uint32 // number of the pack in this cache: see Cache.Pack
	Offset, Sealed uint32 // of the frame in the pack
	Skip           uint32 // offset of the blob in the raw frame
	Len            uint32 // bytes
}

// Found is the answer to a lookup.
type Found struct {
	Loc Loc
	OK  bool
}

// PackInfo is what is needed to open frames of a pack.
type PackInfo struct {
	ID   format.ID
	Salt [pack.SaltSize]byte
	Kind pack.Kind
	Size uint64 // bytes
}

const (
	// layout is the version of the buckets below. A file with another one is replaced.
	layout = 1
	// lockWait is how long Open waits for another process: it may be about to end.
	lockWait = 200 * time.Millisecond
)

// The buckets. Numbers in keys are big-endian, so that keys are in the order of the numbers.
var (
	bucketMeta     = []byte("meta")     // names below -> fixed-size values
	bucketSegments = []byte("segments") // segment ID -> nothing
	bucketPacks    = []byte("packs")    // pack number u32 -> PackInfo
	bucketPackIDs  = []byte("pack ids") // pack ID -> pack number u32
	bucketRuns     = []byte("runs")     // run number u32 -> run
	bucketBlobs    = []byte("blobs")    // run number u32 -> bucket: last ID of a block -> block
	bucketFilters  = []byte("filters")  // run number u32 -> bucket: chunk number u32 -> chunk
	bucketDirs     = []byte("dirs")     // directory key -> entry
	bucketWriters  = []byte("writers")  // generation u32 -> snapshot ID
	bucketKept     = []byte("kept")     // generation u32, chunk number u32 -> bits of sequence numbers

	metaLayout = []byte("layout") // u32
	metaRepo   = []byte("repo")   // 16 bytes
	metaDirs   = []byte("dirs")   // dirState
)

func blobBuckets() [][]byte {
	return [][]byte{bucketSegments, bucketPacks, bucketPackIDs, bucketRuns, bucketBlobs, bucketFilters}
}

func dirBuckets() [][]byte { return [][]byte{bucketDirs, bucketWriters, bucketKept} }

// Cache is an open cache. It is safe for concurrent use.
type Cache struct {
	path string
	db   *bolt.DB
	note string

	write   sync.Mutex // held by whoever changes blobs or directories, over several transactions
	loading sync.Mutex // held while filters are read, so that a later set is never replaced by an earlier one
	filters atomic.Pointer[filterSet]
	live    atomic.Pointer[liveSet]
	scratch sync.Pool // *lookup

	blobStep, dirStep int // perCommit and dirsPerCommit, which tests make smaller
	damaged           atomic.Bool
}

// Open opens the cache file of a repository, and makes it if it is missing. A file that is damaged, of another version
// or of another repository is replaced by an empty one, which Note tells. If another process holds the file, the error
// is ErrBusy.
func Open(path string, repo [16]byte) (*Cache, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	c, err := open(path, repo, false)
	if err == nil || errors.Is(err, ErrBusy) || !replaceable(err) {
		return c, err
	}
	why := err
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace cache: %w", err)
	}
	if c, err = open(path, repo, false); err != nil {
		return nil, err
	}
	c.note = fmt.Sprintf("the local cache was replaced by an empty one: %v", why)
	return c, nil
}

// OpenTemp makes an empty cache in folder dir that nobody else sees and that is gone when it is closed, or when the
// process ends in whatever way: its file has no name. Nothing is flushed to the disk.
func OpenTemp(dir string, repo [16]byte) (*Cache, error) {
	f, err := os.CreateTemp(dir, "cache-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("make temporary cache: %w", err)
	}
	path := f.Name()
	c, err := open(path, repo, true)
	if err = errors.Join(err, f.Close(), os.Remove(path)); err != nil {
		if c != nil {
			err = errors.Join(err, c.db.Close())
		}
		return nil, fmt.Errorf("make temporary cache: %w", err)
	}
	return c, nil
}

// Note returns a sentence for the person at the screen about what happened to the cache, or "".
func (c *Cache) Note() string { return c.note }

// Close releases the file. A damaged one is removed.
func (c *Cache) Close() error {
	if c.damaged.Load() {
		// bbolt may hold locks that a panic left behind: closing could wait for ever. The descriptor goes with the process.
		if err := os.Remove(c.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove damaged cache: %w", err)
		}
		return nil
	}
	if err := c.db.Close(); err != nil {
		return fmt.Errorf("close cache: %w", err)
	}
	return nil
}

// errForeign: the file is a sound bbolt file, but not one for us.
var errForeign = errors.New("it belongs to another repository or another version of tidemark")

func open(path string, repo [16]byte, private bool) (*Cache, error) {
	c := &Cache{path: path, blobStep: perCommit, dirStep: dirsPerCommit}
	c.scratch.New = func() any { return new(lookup) }
	err := c.guard("open cache", func() (err error) {
		c.db, err = bolt.Open(path, 0o600, &bolt.Options{
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
		return c.prepare(repo)
	})
	if err == nil {
		return c, nil
	}
	if c.db != nil && !c.damaged.Load() {
		err = errors.Join(err, c.db.Close())
	}
	return nil, err
}

// replaceable tells a file that is of no use from a disk that is full or a folder that refuses us.
func replaceable(err error) bool {
	var errno syscall.Errno // of the disk, the folder, the memory
	return !errors.Is(err, ErrBusy) && !errors.As(err, &errno)
}

// prepare makes the buckets of a new file, or finds that an old one is not ours.
func (c *Cache) prepare(repo [16]byte) error {
	fresh := false
	err := c.db.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			name, _ := tx.Cursor().First()
			if fresh = name == nil; !fresh {
				return errForeign
			}
			return nil
		}
		if v := meta.Get(metaLayout); len(v) != 4 || binary.BigEndian.Uint32(v) != layout {
			return errForeign
		}
		if !bytes.Equal(meta.Get(metaRepo), repo[:]) {
			return errForeign
		}
		for _, name := range append(blobBuckets(), dirBuckets()...) {
			if tx.Bucket(name) == nil {
				return ErrDamaged
			}
		}
		return nil
	})
	if err != nil || !fresh {
		return err
	}
	return c.db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		for _, name := range append(blobBuckets(), dirBuckets()...) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		if err := meta.Put(metaRepo, repo[:]); err != nil {
			return err
		}
		return meta.Put(metaLayout, number(layout))
	})
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
	return c.guard(what, func() error { return c.db.Update(change) })
}

func (c *Cache) view(what string, read func(tx *bolt.Tx) error) error {
	return c.guard(what, func() error { return c.db.View(read) })
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(make([]byte, 0, 4), n) }
