package treecache

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	tempPrefix = "tmp-"
	// staleAfter is far beyond the time it takes to write a frame.
	staleAfter = time.Hour
	// nameLen is the length of a frame's name: the pack's ID, a dash, and the offset, in hexadecimal digits.
	nameLen = 2*format.IDSize + 1 + 8
)

// fileName returns the name of a frame's file.
func fileName(k Key) string { return fmt.Sprintf("%s-%08x", k.Pack, k.Offset) }

// parseName is the reverse of fileName; ok is false for every other name.
func parseName(name string) (k Key, ok bool) {
	if len(name) != nameLen || name[2*format.IDSize] != '-' || strings.ToLower(name) != name {
		return Key{}, false
	}
	id, err := format.ParseID(name[:2*format.IDSize])
	if err != nil {
		return Key{}, false
	}
	off, err := strconv.ParseUint(name[2*format.IDSize+1:], 16, 32)
	return Key{id, uint32(off)}, err == nil
}

func (c *Cache) path(k Key) string { return filepath.Join(c.dir, fileName(k)) }

// write puts a frame into the folder, atomically for other processes.
func (c *Cache) write(k Key, p []byte) (err error) {
	var f *os.File
	err = c.opt.Door.Names(func() (err error) {
		f, err = os.CreateTemp(c.dir, tempPrefix+"*")
		if errors.Is(err, os.ErrNotExist) { // not made yet, or removed meanwhile
			if err := os.MkdirAll(c.dir, 0o700); err != nil {
				return err
			}
			f, err = os.CreateTemp(c.dir, tempPrefix+"*")
		}
		return err
	})
	if err != nil {
		return err
	}
	err = c.opt.Door.WriteAll(f, p)
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.opt.Door.Names(func() error { return os.Rename(f.Name(), c.path(k)) })
	}
	if err != nil {
		_ = os.Remove(f.Name()) // also when the run was cancelled; the error that matters is the first one
	}
	return err
}

// rescan updates the shelf from the folder and evicts what exceeds the bound. Frames that are new to the shelf come
// from other processes or earlier runs.
func (c *Cache) rescan() {
	c.written = 0
	files, err := c.list()
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			c.stop(err.Error())
		}
		files = nil
	}
	// Oldest first; the name only makes equals predictable.
	slices.SortFunc(files, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		k, _ := parseName(f.Name())
		e := c.shelf.entries[k]
		if e == nil {
			e = c.shelf.add(k, f.Size())
		}
		e.marked = true
	}
	for k, e := range c.shelf.entries {
		if !e.marked {
			c.shelf.remove(k)
		}
		e.marked = false
	}
	c.evict(c.shelf.size-c.opt.Limit, everything)
}

// list lists the frames in the folder, and removes the remains of interrupted writers. It leaves foreign files alone.
func (c *Cache) list() (files []os.FileInfo, err error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		_, ours := parseName(e.Name())
		temp := strings.HasPrefix(e.Name(), tempPrefix)
		if !e.Type().IsRegular() || !ours && !temp {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed by another process
		}
		switch {
		case ours:
			files = append(files, info)
		case time.Since(info.ModTime()) > staleAfter:
			_ = os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
	return files, nil
}
