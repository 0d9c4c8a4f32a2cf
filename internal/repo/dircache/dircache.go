// Package dircache remembers directories between backups: a value for each key, which a backup fills with digests and
// names. An entry counts only while a snapshot that contains the tree of the directory is in the repository (see
// Batch).
//
//	lock      held by the process that uses the cache (dircache.go)
//	state     which runs there were, what they kept, and which layers there are (state.go)
//	00000001  a layer: entries in checked pages, and their values (layer.go)
//
// Layers never change, and the state is replaced by a rename. So a crash, or a full disk, leaves the cache as it was.
package dircache

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	lockName = "lock"
	// lockWait is how long Open waits for another process that uses the cache.
	lockWait = 200 * time.Millisecond
	// oldCache is the directory cache of earlier versions, beside the folder of this one.
	oldCache = "dirs.db"
)

// Hit is a remembered directory.
type Hit struct {
	Value    []byte    // as it was put
	Snapshot format.ID // in the repository; contains the tree that Value describes
	Ref      Ref       // for Batch.Keep
}

// Ref identifies one version of an entry. References are assigned in ascending order and never reused.
type Ref uint64

// Cache is an open directory cache. It is safe for concurrent use.
type Cache struct {
	dir     string
	io      localfs.IOContext // nothing is written after its context ends
	lock    *os.File
	damaged atomic.Bool           // Close removes what there is
	ended   atomic.Pointer[error] // why the cache is not used any more; nil: it is

	write sync.Mutex   // held while the state is changed
	mu    sync.RWMutex // guards state; held by lookups, which read its layers
	state *state
}

// Open opens the cache of a repository in folder dir, and makes it if it is missing. What is damaged, or belongs to
// another version or repository, is replaced by an empty one; then note says so. If another process uses the cache, the
// error is cachefile.ErrBusy.
func Open(dir string, repo [16]byte, io localfs.IOContext) (c *Cache, note string, err error) {
	c = &Cache{dir: dir, io: io}
	if c.lock, err = cachefile.Lock(filepath.Join(dir, lockName), lockWait, io); err != nil {
		return nil, "", fmt.Errorf("open cache: %w", err)
	}
	if c.lock == nil {
		return nil, "", cachefile.ErrBusy
	}
	err = c.load(repo)
	if err != nil && replaceable(err) {
		why := err
		if err = c.io.Names(c.clear); err != nil {
			err = fmt.Errorf("replace cache: %w", err)
		} else {
			note = fmt.Sprintf("the local cache was replaced by an empty one: %v", why)
		}
	}
	if err != nil {
		return nil, "", errors.Join(err, c.lock.Close())
	}
	return c, note, nil
}

// load reads the state and opens the layers. After an error the state is that of an empty cache.
func (c *Cache) load(repo [16]byte) error {
	c.state = &state{Layout: layout, Repo: repo}
	old := c.io.Names(func() error { return os.Remove(filepath.Join(filepath.Dir(c.dir), oldCache)) })
	s, err := readState(filepath.Join(c.dir, stateName), c.io)
	switch {
	case errors.Is(err, os.ErrNotExist) && old == nil:
		return cachefile.ErrForeign
	case errors.Is(err, os.ErrNotExist):
		return c.io.Names(func() error { c.sweep(c.state); return nil })
	case err != nil:
		return fmt.Errorf("open cache: %w", err)
	case s.Layout != layout || s.Repo != repo:
		return cachefile.ErrForeign
	}
	for _, l := range s.Layers {
		if err := l.open(c.dir, c.io); err != nil {
			s.close(nil)
			return fmt.Errorf("open cache: %w", err)
		}
	}
	c.state = s
	return c.io.Names(func() error { c.sweep(s); return nil })
}

// sweep removes layers and temporary files that are not part of a state: a killed process has left them. What cannot be
// removed does no harm. Nothing else is touched, since the folder may be a link to one that has other files.
func (c *Cache) sweep(s *state) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		is := func(l *layer) bool { return l.name() == e.Name() }
		if own(e.Name()) && !slices.ContainsFunc(s.Layers, is) {
			_ = os.RemoveAll(filepath.Join(c.dir, e.Name()))
		}
	}
}

// own reports whether a name is that of a layer or of a temporary file.
func own(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == layerDigits || strings.HasPrefix(name, tempPrefix)
}

// clear removes the state, and with that everything.
func (c *Cache) clear() error {
	if err := os.RemoveAll(filepath.Join(c.dir, stateName)); err != nil {
		return err
	}
	c.sweep(&state{})
	return nil
}

// replaceable distinguishes a useless or unreadable file from a full disk or missing permissions.
func replaceable(err error) bool {
	var errno syscall.Errno // of the disk, the folder, the memory
	return !errors.Is(err, cachefile.ErrBusy) && !errors.Is(err, localfs.ErrStopped) &&
		(!errors.As(err, &errno) || errno == syscall.EIO || errors.Is(err, cachefile.ErrDamaged))
}

// GiveUp ends the use of the cache after a failure, which later calls return.
func (c *Cache) GiveUp(why error) { c.ended.CompareAndSwap(nil, &why) }

// usable returns why the cache is not used any more.
func (c *Cache) usable() error {
	if why := c.ended.Load(); why != nil {
		return *why
	}
	return nil
}

// Close releases the cache. A damaged one is removed.
func (c *Cache) Close() error {
	c.write.Lock()
	defer c.write.Unlock()
	c.GiveUp(os.ErrClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.close(nil)
	var err error
	if c.damaged.Load() {
		err = c.clear() // although the run may have been cancelled
	}
	if err = errors.Join(err, c.lock.Close()); err != nil {
		return fmt.Errorf("close cache: %w", err)
	}
	return nil
}

// SetLiveSnapshots sets which snapshots are in the repository. Before the first call no entry counts. The next
// Batch.Commit deletes the generations of other snapshots.
func (c *Cache) SetLiveSnapshots(ids []format.ID) error {
	return c.change("read writers of directories", func(next *state) (bool, error) {
		next.live = make(map[format.ID]bool, len(ids))
		for _, id := range ids {
			next.live[id] = true
		}
		return false, nil
	})
}

// Renamed makes the entries of a snapshot count for another one with the same tree, which takes its place.
func (c *Cache) Renamed(from, to format.ID) error {
	return c.change("rename snapshot of directories", func(next *state) (changed bool, _ error) {
		for i, w := range next.Writers {
			if w.Snapshot == from {
				next.Writers[i] = &writer{w.Generation, to, w.Kept}
				changed = true
			}
		}
		return changed, nil
	})
}

// SetValue stores a small value under a name; nil removes it.
func (c *Cache) SetValue(name string, value []byte) error {
	return c.change("keep a value in the cache", func(next *state) (bool, error) {
		next.setValue(name, value)
		return true, nil
	})
}

// Value returns what SetValue stored, or nil.
func (c *Cache) Value(name string) (value []byte, err error) {
	if err := c.usable(); err != nil {
		return nil, fmt.Errorf("read a value of the cache: %w", err)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.state.Values[name]), nil
}

// Note returns the note of the last committed Batch that had one, or nil.
func (c *Cache) Note() ([]byte, error) { return c.Value(noteName) }

// change replaces the state by one that make changes, and writes it to the disk if make reports that it has to be.
func (c *Cache) change(what string, make func(next *state) (write bool, err error)) error {
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.usable(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	next := *c.state
	next.Writers, next.Layers, next.Values = slices.Clone(next.Writers), slices.Clone(next.Layers), maps.Clone(next.Values)
	write, err := make(&next)
	if err == nil && write {
		err = next.write(filepath.Join(c.dir, stateName), c.io)
	}
	if err != nil {
		c.drop(&next, c.state)
		c.found(err)
		return fmt.Errorf("%s: %w", what, err)
	}
	next.count()
	c.mu.Lock()
	old := c.state
	c.state = &next
	c.mu.Unlock()
	c.drop(old, &next)
	return nil
}

// drop closes and removes the layers of a state that another does not have. Of one that stays, Open removes the file.
func (c *Cache) drop(s, but *state) {
	for _, l := range s.close(but) {
		_ = c.io.Names(func() error { return os.Remove(filepath.Join(c.dir, l.name())) })
	}
}

// found ends the use of a cache that an error shows to be damaged.
func (c *Cache) found(err error) {
	if errors.Is(err, cachefile.ErrDamaged) {
		c.damaged.Store(true)
		c.GiveUp(err)
	}
}

// Lookup returns the entry under key if it counts. The value is written over buf, which may be nil, if that is large
// enough.
func (c *Cache) Lookup(key [16]byte, buf []byte) (hit Hit, ok bool, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.state.newest) == 0 {
		return Hit{}, false, nil
	}
	if err = c.usable(); err == nil {
		hit, ok, err = c.state.lookup(&key, buf)
		c.found(err)
	}
	if err != nil {
		return Hit{}, false, fmt.Errorf("look up directory: %w", err)
	}
	return hit, ok, nil
}
