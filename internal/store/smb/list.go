package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

const (
	// batch is how many entries of a folder one operation reads. The server may send fewer.
	batch = 512
	// atOnce is how many folders of packs are read at the same time: half of all, since each takes three answers.
	atOnce = 136
)

// List reads a whole folder of the kind before it yields its files, so that reading can start again after a lost
// connection. Packs are in 257 folders; half of them are read at a time.
//
// Leases are replaced while others list them, and a name that is replaced between two requests can be missing from the
// result. A missed lease could cost a writer its packs. Leases are few, so the folder is read again until a reading
// finds nothing new.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		var err error
		stopped := false
		pass := func(infos []store.Info) error {
			for _, info := range infos {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if !yield(info, nil) {
					stopped = true
					return errStop
				}
			}
			return nil
		}
		switch {
		case !kind.Valid():
			err = store.ErrName
		case kind == store.Config:
			err = s.listConfig(ctx, pass)
		case kind == store.Lease:
			err = s.listLeases(ctx, kind, pass)
		case kind == store.Pack:
			err = s.listPacks(ctx, pass)
		default:
			var infos []store.Info
			if infos, err = s.listDir(ctx, kind, kind.Folder()); err == nil {
				err = pass(infos)
			}
		}
		if err != nil && !stopped {
			yield(store.Info{}, fmt.Errorf("list %s: %w", kind, err))
		}
	}
}

func (s *Store) listConfig(ctx context.Context, pass func([]store.Info) error) error {
	info, err := s.Stat(ctx, store.Name{Kind: store.Config})
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return pass([]store.Info{info})
}

func (s *Store) listPacks(ctx context.Context, pass func([]store.Info) error) error {
	folders := []string{store.Trees} // and at most 272 of one or two digits
	entries, err := s.readFolder(ctx, path.Join(s.target.Path, store.Pack.Folder()))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if id := folded(e); len(id) <= 2 && store.ValidID(id) && e.IsDir() {
			folders = append(folders, path.Join(store.Pack.Folder(), id))
		}
		store.MisplacedInPacks(ctx, folded(e), e.Mode())
	}
	for some := range slices.Chunk(folders, atOnce) {
		found := make([][]store.Info, len(some))
		group, ctx := errgroup.WithContext(ctx)
		for i, folder := range some {
			group.Go(func() (err error) {
				found[i], err = s.listDir(ctx, store.Pack, folder)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, infos := range found {
			if err := pass(infos); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) listLeases(ctx context.Context, kind store.Kind, pass func([]store.Info) error) error {
	found := make(map[store.Name]store.Info)
	for before := -1; before != len(found); {
		before = len(found)
		infos, err := s.listDir(ctx, kind, kind.Folder())
		if err != nil {
			return err
		}
		for _, info := range infos {
			found[info.Name] = info
		}
	}
	for _, info := range found {
		if err := pass([]store.Info{info}); err != nil {
			return err
		}
	}
	return nil
}

// listDir returns the stored files in a folder of the repository. Files in a folder that is not theirs are none.
func (s *Store) listDir(ctx context.Context, kind store.Kind, folder string) ([]store.Info, error) {
	entries, err := s.readFolder(ctx, path.Join(s.target.Path, folder))
	if err != nil {
		return nil, err
	}
	var infos []store.Info
	for _, e := range entries {
		name := store.Name{Kind: kind, ID: folded(e)}
		stored := e.Mode().IsRegular() || store.IsFence(kind, e.Mode())
		switch {
		case name.Check() != nil || !stored && !e.IsDir():
		case !stored, path.Dir(name.Path()) != folder:
			store.Misplaced(ctx, name, folder, e.IsDir())
		default:
			infos = append(infos, store.Describe(name, e))
		}
	}
	return infos, nil
}

// readFolder reads a folder, with retries. A missing folder is empty, because tools that copy a repository may leave
// out empty folders. It is an error if the target is missing, or if it is that of the snapshots.
func (s *Store) readFolder(ctx context.Context, at string) (entries []fs.FileInfo, err error) {
	err = s.repeat(ctx, func(h *session.Hold, _ int) (err error) {
		entries, err = s.readDir(ctx, h, at)
		if (err == nil && len(entries) == 0) || (errors.Is(err, fs.ErrNotExist) && !s.known.Load()) {
			if lost := s.checkPresent(ctx, h, err); lost != nil {
				return lost
			}
		}
		return err
	})
	if errors.Is(err, store.ErrNotExist) {
		return nil, s.needed(at)
	}
	return entries, err
}

// needed returns an error if a missing folder is that of the snapshots.
func (s *Store) needed(at string) error {
	if s.known.Load() && at == path.Join(s.target.Path, store.Snapshot.Folder()) {
		return store.NoSnapshots(s.Location())
	}
	return nil
}

func (s *Store) readDir(ctx context.Context, h *session.Hold, at string) ([]fs.FileInfo, error) {
	d, err := s.open(ctx, h, at, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer d.done(ctx, nil)
	var all []fs.FileInfo
	for {
		some, err := s.readSome(ctx, d)
		all = append(all, some...)
		if session.Ended(ctx, err) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// readSome reads the next entries of a folder.
func (s *Store) readSome(ctx context.Context, d *file) (some []fs.FileInfo, err error) {
	err = d.ample(ctx, func() (err error) {
		some, err = d.smb.Readdir(batch)
		return err
	})
	return some, err
}

// folded returns the name of an entry in lower case: some servers store names in upper case.
func folded(e fs.FileInfo) string { return strings.ToLower(e.Name()) }

// isTemp reports whether an entry of a folder is a temporary file of this package or of package local.
func isTemp(e fs.FileInfo) bool { return strings.HasPrefix(folded(e), TempPrefix) && !e.IsDir() }
