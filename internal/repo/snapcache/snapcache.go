// Package snapcache is what this machine keeps of the snapshots of a repository, in the cache folder: a copy of each,
// sealed as on the target, and a record of those that this machine has published.
//
// A snapshot never changes, so it is read from the target once, and then from its copy. The hash of a copy is compared
// with the ID before it is used, so a torn or damaged copy costs one read of the target. Which snapshots exist is
// always decided by a listing of the target.
//
// With the copy a damaged snapshot is put back. A copy whose file on the target was found damaged is no longer read in
// its place, so that every command on this machine sees the damage until it is put back.
//
// The record detects a snapshot that disappears without being forgotten. The copy of one that is in the record stays
// until it is known to be forgotten: it can be brought back from that, and a prune knows which data it needs. Without
// this folder no disappearance is detected, and nothing is put back.
package snapcache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Limit bounds the bytes of all copies. Most snapshots have 1 to 2 KiB.
const Limit = 64 << 20

// damaged ends the name of a copy whose file on the target is damaged.
const damaged = ".damaged"

// Cache is the folder of the copies. It is safe for concurrent use by several processes: a copy never changes. No
// method returns an error, because without a copy the target is read. The zero Cache holds nothing.
type Cache struct {
	dir   string
	ioctx localfs.IOContext
}

// Open returns the copies in the cache folder of a repository. The folder is made when the first copy is kept.
func Open(folder string, ioctx localfs.IOContext) Cache {
	return Cache{filepath.Join(folder, "snapshots"), ioctx}
}

func (c Cache) path(id format.ID) string { return filepath.Join(c.dir, id.String()) }

// Get returns the file of a snapshot, nil if there is no intact copy or the file on the target is damaged.
func (c Cache) Get(id format.ID) []byte { return c.read(c.path(id), id) }

// Copy is Get for putting a snapshot back: it also returns a copy whose file on the target is damaged.
func (c Cache) Copy(id format.ID) []byte {
	if sealed := c.Get(id); sealed != nil {
		return sealed
	}
	return c.read(c.path(id)+damaged, id)
}

func (c Cache) read(path string, id format.ID) []byte {
	if c.dir == "" {
		return nil
	}
	var f *os.File
	var info os.FileInfo
	err := c.ioctx.Names(func() (err error) {
		if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
			info, err = f.Stat()
		}
		return err
	})
	if f != nil {
		defer f.Close()
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > Limit {
		return nil
	}
	sealed := make([]byte, info.Size())
	if c.ioctx.ReadFull(f, sealed) != nil || seal.FileID(sealed) != id {
		return nil
	}
	return sealed
}

// Put keeps the file of a snapshot, which is intact on the target.
func (c Cache) Put(id format.ID, sealed []byte) {
	if c.dir == "" {
		return
	}
	var f *os.File
	err := c.ioctx.Names(func() (err error) {
		if err = os.MkdirAll(c.dir, 0o700); err == nil {
			f, err = os.OpenFile(c.path(id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		}
		return err
	})
	if err != nil {
		return
	}
	err = errors.Join(c.ioctx.WriteAll(f, sealed), f.Close())
	_ = c.ioctx.Names(func() error {
		if err != nil {
			return os.Remove(c.path(id)) // a part of it, which may fill the disk
		}
		return os.Remove(c.path(id) + damaged)
	})
}

// Damaged records that the file of a snapshot on the target is damaged.
func (c Cache) Damaged(id format.ID) {
	if c.dir != "" {
		_ = c.ioctx.Names(func() error { return os.Rename(c.path(id), c.path(id)+damaged) })
	}
}

// Retain removes the copies of the listed snapshots that are not to be kept, and of all others that are not in the
// record of this machine.
func (c Cache) Retain(listed map[format.ID]bool) {
	if c.dir == "" {
		return
	}
	_ = c.ioctx.Names(func() error {
		entries, err := os.ReadDir(c.dir)
		var published Snapshots // read when it is needed
		for _, e := range entries {
			id, parseErr := format.ParseID(strings.TrimSuffix(e.Name(), damaged))
			keep, there := listed[id]
			if parseErr != nil || keep {
				continue
			}
			if !there && published == nil {
				var readErr error
				if published, readErr = Published(filepath.Dir(c.dir)); readErr != nil {
					return errors.Join(err, readErr)
				}
			}
			if _, missed := published[id]; there || !missed {
				err = errors.Join(err, os.Remove(filepath.Join(c.dir, e.Name())))
			}
		}
		return err
	})
}
