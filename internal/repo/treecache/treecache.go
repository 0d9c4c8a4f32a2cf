// Package treecache keeps sealed frames in a local folder, so that tree walks do not fetch the same frames repeatedly
// from a remote target. A frame stays encrypted, as on the target.
//
// The folder is disposable at any time. Each frame is a plain file, named by its pack and its offset in the pack and
// put there by a rename. So several processes share a folder without a lock: a frame never changes, and a second writer
// writes the same bytes. Nothing is flushed for durability, though written bytes may be sent to the disk at once. A
// frame torn by a crash has the wrong length or fails to open; the caller then reports it with Drop and fetches it
// again.
//
// # Bound
//
// The files together take at most Options.Limit, counted in blocks. The least recently used frame is evicted first, by
// the modification time of the file, which a use renews at most once an hour. With that rule alone, a walk through more
// frames than fit would evict each frame just before it is needed. So a run does not evict frames that it used itself:
// a fetched frame replaces only frames this run has not used. An uploaded frame, which the next run needs, also
// replaces fetched ones. If nothing can be evicted, the frame is not kept. Several processes may briefly exceed the
// bound together; each rescans the folder when it uses it first, when it closes it, and after some writing.
//
// A part of the disk stays free whatever the bound: 1 GiB, or 5 % where that is less. If less is free when the folder
// is first used, frames are evicted. If the disk fills up later, or cannot be written, nothing is added any more and a
// note reports it. No method returns an error: without this cache a run is only slower. The package cannot detect a
// damaged frame; its callers can.
package treecache

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Key names a frame permanently: pack numbers change when a cache is rebuilt, IDs do not.
type Key struct {
	Pack   format.ID
	Offset uint32 // of the frame in the pack
}

// Origin is how a frame reached this machine.
type Origin uint8

// The origins.
const (
	Fetched  Origin = iota + 1 // read from the target
	Uploaded                   // written by this run: the next run will need it

	everything = Uploaded + 1 // not an origin: displaces all others
)

// Options bound a cache and connect it to the user and the device. All are required.
type Options struct {
	Limit  int64             // bytes on the disk
	Notify func(text string) // called at most once, when the cache has switched itself off
	Door   localfs.IOContext // I/O context of the device; when its context ends, nothing is found and nothing kept
}

// touchAfter is how old a modification time may get while the frame is in use.
const touchAfter = time.Hour

// rescans is how many times per Limit bytes written the folder is rescanned for frames of other processes.
const rescans = 8

// Cache is an open folder of frames. It is safe for concurrent use, also with others on the same folder.
type Cache struct {
	dir  string
	opt  Options
	disk func(dir string) (space, error)
	scan sync.Once // by the first use

	mu      sync.Mutex
	shelf   shelf
	written int64 // bytes since the last rescan
	dirty   bool  // something was written since Open
	off     bool  // nothing is added any more
	closed  bool
}

// Open returns the frames in folder dir. The first use scans them and evicts what exceeds the bound. The folder is made
// when the first frame is kept.
func Open(dir string, opt Options) *Cache { return open(dir, opt, statDisk) }

func open(dir string, opt Options, disk func(string) (space, error)) *Cache {
	return &Cache{dir: dir, opt: opt, disk: disk, shelf: newShelf()}
}

// ready scans the folder once.
func (c *Cache) ready() {
	c.scan.Do(func() {
		_ = c.atFolder(func() {
			c.rescan()
			if s, err := c.disk(c.dir); err == nil {
				c.evict(s.missing(0), everything)
			}
		})
	})
}

// atFolder is an operation on the folder with c.mu. It locks c.mu only after the gate has admitted the operation: other
// callers need the lock without the device.
func (c *Cache) atFolder(call func()) error {
	return c.opt.Door.Names(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		call()
		return nil
	})
}

// Close evicts what exceeds the bound, including frames of other processes. Later calls find nothing and keep nothing.
// c may be nil.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	if c.needsScan() {
		_ = c.atFolder(c.rescan)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.off = true, true
}

// needsScan reports whether something was written since Open, to a cache that is open.
func (c *Cache) needsScan() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && c.dirty
}

// Get fills p with a frame whose sealed length is len(p), and reports whether it was there. The caller verifies the
// bytes.
func (c *Cache) Get(k Key, p []byte) bool {
	if c.isClosed() {
		return false
	}
	c.ready()
	var f *os.File
	var info os.FileInfo
	err := c.opt.Door.Names(func() (err error) {
		// A FIFO or a link by that name is foreign: O_NONBLOCK avoids hanging on one, O_NOFOLLOW following the other.
		if f, err = os.OpenFile(c.path(k), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		info, err = f.Stat()
		return err
	})
	if f != nil {
		defer f.Close()
	}
	switch {
	case c.stopped():
		return false
	case os.IsNotExist(err):
		c.forget(k)
		return false
	case err != nil || !info.Mode().IsRegular():
		return false
	case info.Size() != int64(len(p)):
		c.Drop(k)
		return false
	}
	if err := c.opt.Door.ReadFull(f, p); err != nil {
		if !c.stopped() {
			c.Drop(k)
		}
		return false
	}
	// Abs, because a timestamp from the future (wrong clock) would otherwise never age.
	if now := time.Now(); now.Sub(info.ModTime()).Abs() > touchAfter {
		// A folder that cannot be written still serves.
		_ = c.opt.Door.Names(func() error { return os.Chtimes(f.Name(), time.Time{}, now) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shelf.use(k, int64(len(p)))
	return true
}

// Keep keeps the frames of a pack that this run has uploaded. c may be nil.
func (c *Cache) Keep(id format.ID, data []byte, frames []pack.Frame) {
	for i := 0; i < len(frames) && c != nil; i++ {
		f := &frames[i]
		c.Put(Key{id, f.Offset}, data[f.Offset:][:f.Sealed], Uploaded)
	}
}

// Put keeps a frame that is known to be good, if there is space for it. The bytes are copied.
func (c *Cache) Put(k Key, sealed []byte, from Origin) {
	if c.isClosed() {
		return
	}
	c.ready()
	admitted := false
	if err := c.atFolder(func() { admitted = c.admit(k, int64(len(sealed)), from) }); err != nil || !admitted {
		return
	}
	if c.finish(k, int64(len(sealed)), c.write(k, sealed)) {
		_ = c.atFolder(c.rescan)
	}
}

// finish records what was written, and reports whether the folder is due for a rescan.
func (c *Cache) finish(k Key, size int64, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shelf.settle(k, err == nil)
	if err != nil {
		if !c.stopped() {
			c.stop(err.Error())
		}
		return false
	}
	c.dirty = true
	c.written += blocks(size)
	return c.written > c.opt.Limit/rescans
}

// Drop removes a frame that turned out to be damaged.
func (c *Cache) Drop(k Key) {
	_ = c.opt.Door.Names(func() error { return os.Remove(c.path(k)) })
	c.forget(k)
}

// stopped reports whether the run was cancelled.
func (c *Cache) stopped() bool { return c.opt.Door.Ctx != nil && c.opt.Door.Ctx.Err() != nil }

// admit makes space for a frame and reports whether it is to be written. The caller holds c.mu.
func (c *Cache) admit(k Key, size int64, from Origin) bool {
	if c.off || c.shelf.upgrade(k, from) {
		return false
	}
	need := c.shelf.size + blocks(size) - c.opt.Limit
	var lack int64
	s, err := c.disk(c.dir)
	if err == nil { // otherwise a write error reports a full disk
		lack = s.missing(blocks(size))
	}
	if !c.evict(max(need, lack), from) {
		if lack > 0 {
			c.stop(fmt.Sprintf("the disk has %d MB free, and %d MB of it stay free", s.free>>20, s.reserve>>20))
		}
		return false
	}
	c.shelf.expect(k, size, from)
	return true
}

// evict removes frames that a frame of that origin may displace, oldest first, until need bytes are free. If that is
// impossible it returns false and removes none, except for everything, for which it removes what it can.
func (c *Cache) evict(need int64, from Origin) bool {
	if need <= 0 {
		return true
	}
	if from != everything && c.shelf.below(from) < need {
		return false
	}
	for need > 0 {
		k, freed, ok := c.shelf.takeOldest(from)
		if !ok {
			return false
		}
		_ = os.Remove(c.path(k)) // already gone is fine; a file that stays is found at the next rescan
		need -= freed
	}
	return true
}

// stop ends the writing, but not the reading.
func (c *Cache) stop(why string) {
	if c.off {
		return
	}
	c.off = true
	c.opt.Notify(fmt.Sprintf("no more tree data is kept in %s in this run: %s", c.dir, why))
}

func (c *Cache) forget(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shelf.remove(k)
}

func (c *Cache) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
