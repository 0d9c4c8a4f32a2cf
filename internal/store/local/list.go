package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// batch is how many entries of a folder are in memory at a time.
const batch = 512

// List streams the folder of the kind, a batch of entries at a time.
//
// Leases are replaced while others list them. On some file systems (btrfs, tmpfs) a name that is replaced between the
// opening and the reading of a folder is missing from that reading. A missed lease could cost a writer its packs.
// Leases are few, so the folder is read again until a reading finds nothing new.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		err := s.guard(ctx)
		stopped := false
		pass := func(info store.Info) bool {
			stopped = !yield(info, nil)
			return !stopped
		}
		switch {
		case !kind.Valid():
			err = store.ErrName
		case err != nil:
		case kind == store.Config:
			err = s.listConfig(ctx, pass)
		case kind == store.Lease:
			err = s.listLeases(ctx, kind, pass)
		case kind == store.Pack:
			err = s.listPacks(ctx, pass)
		default:
			err = s.listFiles(ctx, kind, kind.Folder(), pass)
		}
		if err == nil && !stopped { // after an unmount the remaining files are missing
			err = s.guard(ctx)
		}
		if err != nil && !stopped {
			yield(store.Info{}, fmt.Errorf("list %s: %w", kind, s.explain(ctx, err)))
		}
	}
}

func (s *Store) listConfig(ctx context.Context, pass func(store.Info) bool) error {
	info, err := s.Stat(ctx, store.Name{Kind: store.Config})
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pass(info)
	return nil
}

func (s *Store) listPacks(ctx context.Context, pass func(store.Info) bool) error {
	root := filepath.Join(s.root, store.Pack.Folder())
	var fans []string // at most 272: the folders of one or two digits
	err := s.listDir(ctx, root, func(e fs.DirEntry) (bool, error) {
		if id := e.Name(); len(id) <= 2 && store.ValidID(id) && !e.Type().IsRegular() {
			fans = append(fans, store.Pack.Folder()+"/"+id)
		}
		store.MisplacedInPacks(ctx, e.Name(), e.Type())
		return true, nil
	})
	if err != nil {
		return err
	}
	more := true
	for _, folder := range append([]string{store.Trees}, fans...) {
		if !more {
			return nil
		}
		err := s.listFiles(ctx, store.Pack, folder, func(i store.Info) bool {
			more = pass(i)
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) listLeases(ctx context.Context, kind store.Kind, pass func(store.Info) bool) error {
	found := make(map[store.Name]store.Info)
	for before := -1; before != len(found); {
		before = len(found)
		err := s.listFiles(ctx, kind, kind.Folder(), func(i store.Info) bool {
			found[i.Name] = i
			return true
		})
		if err != nil {
			return err
		}
	}
	for _, info := range found {
		if !pass(info) {
			return nil
		}
	}
	return nil
}

// listFiles passes on the stored files in a folder of the repository. Files in a folder that is not theirs are none.
func (s *Store) listFiles(ctx context.Context, kind store.Kind, folder string, pass func(store.Info) bool) error {
	return s.listDir(ctx, filepath.Join(s.root, folder), func(e fs.DirEntry) (bool, error) {
		name := store.Name{Kind: kind, ID: e.Name()}
		stored := e.Type().IsRegular() || store.IsFence(kind, e.Type())
		if name.Check() != nil || !stored && !e.IsDir() {
			return true, nil
		}
		if !stored || path.Dir(name.Path()) != folder {
			store.Misplaced(ctx, name, folder, e.IsDir())
			return true, nil
		}
		var info fs.FileInfo
		err := s.confirmMissing(ctx, func() (err error) {
			info, err = s.info(ctx, e)
			return err
		})
		if ctx.Err() == nil && absent(err) {
			return true, nil // deleted since the folder was read
		}
		if err != nil {
			return false, err
		}
		return pass(store.Describe(name, info)), nil
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

// listDir calls visit for every entry until it returns false. A missing folder is empty, because tools that copy a
// repository may leave out empty folders. It is an error if the target is missing, or if it is that of the snapshots.
func (s *Store) listDir(ctx context.Context, path string, visit func(fs.DirEntry) (bool, error)) error {
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
			if more, err := visit(e); err != nil || !more {
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

// sweep removes temporary files whose writers are dead. fresh was just created: its time is that of the target's clock.
// Errors are ignored; the next use of the folder reports them.
func (s *Store) sweep(ctx context.Context, fresh *os.File) {
	var now fs.FileInfo
	err := s.metadata(ctx, func() (err error) {
		now, err = fresh.Stat()
		return err
	})
	if err != nil {
		return
	}
	dead := func(path string, written time.Time) bool {
		age := now.ModTime().Sub(written)
		return age > staleAfter || age > lockedAfter && s.abandoned(ctx, path)
	}
	var visit func(dir string, deeper int) func(fs.DirEntry) (bool, error)
	visit = func(dir string, deeper int) func(fs.DirEntry) (bool, error) {
		return func(e fs.DirEntry) (bool, error) {
			path := filepath.Join(dir, e.Name())
			switch {
			case strings.HasPrefix(e.Name(), TempPrefix) && e.Type().IsRegular():
				if info, err := s.info(ctx, e); err == nil && dead(path, info.ModTime()) {
					_ = s.metadata(ctx, func() error { return os.Remove(path) })
				}
			case deeper > 0 && e.IsDir() && isOurs(e.Name()):
				_ = s.listDir(ctx, path, visit(path, deeper-1))
			}
			return true, nil
		}
	}
	_ = s.listDir(ctx, s.root, visit(s.root, 2))
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
