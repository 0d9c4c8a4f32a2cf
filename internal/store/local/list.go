package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// batch is how many entries of a folder are in memory at a time.
const batch = 512

// List streams the folder of the kind, a batch of entries at a time. On some file systems (btrfs, tmpfs) a name that is
// replaced between the opening and the reading of a folder is missing from that reading.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return store.Listing(ctx, kind, func(pass func(store.Info) error) error {
		f := store.FolderLister{Stat: s.Stat, Read: s.read, AtOnce: 1}
		err := s.guard(ctx)
		if err == nil {
			err = f.List(ctx, kind, pass)
		}
		if err == nil { // after an unmount the remaining files are missing
			err = s.guard(ctx)
		}
		return s.explain(ctx, err)
	})
}

// read passes on the entries of a folder.
func (s *Store) read(ctx context.Context, folder string,
	pass func(id string, mode fs.FileMode, info func() (fs.FileInfo, error)) error) (bool, error) {
	return false, s.listDir(ctx, s.abs(folder), func(e fs.DirEntry) error {
		err := pass(e.Name(), e.Type(), func() (info fs.FileInfo, err error) {
			err = s.confirmMissing(ctx, func() (err error) {
				info, err = s.info(ctx, e)
				return err
			})
			return info, err
		})
		if ctx.Err() == nil && absent(err) {
			return nil // deleted since the folder was read
		}
		return err
	})
}

// needed returns an error if a missing folder is that of the snapshots.
func (s *Store) needed(path string) error {
	if s.known.Load() && path == filepath.Join(s.root, store.Snapshot.Folder()) {
		return store.NoSnapshots(s.root)
	}
	return nil
}

// info describes an entry of a folder.
func (s *Store) info(ctx context.Context, e fs.DirEntry) (info fs.FileInfo, err error) {
	err = s.metadata(ctx, func() (err error) {
		info, err = e.Info()
		return err
	})
	return info, err
}

// listDir calls visit for every entry. A missing folder is empty, because tools that copy a
// repository may leave out empty folders. It is an error if the target is missing, or if it is that of the snapshots.
func (s *Store) listDir(ctx context.Context, path string, visit func(fs.DirEntry) error) error {
	var d *os.File
	err := s.confirmMissing(ctx, func() error {
		return s.metadata(ctx, func() (err error) {
			d, err = open(path, unix.O_RDONLY)
			return err
		})
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if absent(err) {
		if lost := s.checkPresent(ctx, err); lost != nil {
			return lost
		}
		return s.needed(path)
	}
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		var entries []fs.DirEntry
		err := s.metadata(ctx, func() (err error) {
			entries, err = d.ReadDir(batch)
			return err
		})
		for _, e := range entries {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := visit(e); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil: // any error: it says nothing about the folder
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, fs.ErrNotExist): // the folder itself was removed
			//nolint:errorlint // no file is missing
			return fmt.Errorf("%w: the folder was removed while it was read: %v", store.ErrTemporary, err)
		case errors.Is(err, unix.ENOTDIR):
			return fmt.Errorf("%s is a file, where the repository has a folder: rename it, put the folder back from a copy of "+
				"the repository if there is one, and run 'tidemark check': %w", path, err)
		default:
			return err
		}
	}
}

// sweep removes temporary files and scratch folders whose writers are dead, in the folder of the repository and so many
// levels below. fresh was just made: its time is that of the target's clock. Errors are ignored; the next use of the
// folder reports them.
func (s *Store) sweep(ctx context.Context, fresh string, levels int) {
	var now fs.FileInfo
	err := s.metadata(ctx, func() (err error) {
		now, err = os.Lstat(fresh)
		return err
	})
	if err != nil {
		return
	}
	dead := func(path string, e fs.DirEntry) bool {
		info, err := s.info(ctx, e)
		if err != nil {
			return false
		}
		age := now.ModTime().Sub(info.ModTime())
		return age > store.StaleAfter || age > lockedAfter && !e.IsDir() && s.abandoned(ctx, path)
	}
	var visit func(dir string, deeper int) func(fs.DirEntry) error
	visit = func(dir string, deeper int) func(fs.DirEntry) error {
		return func(e fs.DirEntry) error {
			path := filepath.Join(dir, e.Name())
			temp := strings.HasPrefix(e.Name(), store.TempPrefix) && e.Type().IsRegular()
			switch {
			case temp || strings.HasPrefix(e.Name(), store.ScratchPrefix) && e.IsDir():
				if dead(path, e) {
					_ = s.metadata(ctx, func() error { return os.RemoveAll(path) })
				}
			case deeper > 0 && e.IsDir() && isOurs(e.Name()):
				_ = s.listDir(ctx, path, visit(path, deeper-1))
			}
			return nil
		}
	}
	_ = s.listDir(ctx, s.root, visit(s.root, levels))
}

// isOurs reports whether a folder of this name belongs to the layout: a kind's, or one of the fan-out of packs.
func isOurs(name string) bool {
	if len(name) <= 2 && store.ValidID(name) {
		return true
	}
	for folder := range store.Folders() {
		if folder == name {
			return true
		}
	}
	return false
}
