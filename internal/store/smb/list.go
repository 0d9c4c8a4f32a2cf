package smb

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

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
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return store.Listing(ctx, kind, func(pass func(store.Info) error) error {
		f := store.FolderLister{Stat: s.Stat, Read: s.read, AtOnce: atOnce}
		return f.List(ctx, kind, pass)
	})
}

// read passes on the entries of a folder. A server sends them in several answers.
func (s *Store) read(ctx context.Context, folder string,
	pass func(id string, mode fs.FileMode, info func() (fs.FileInfo, error)) error) (bool, error) {
	entries, err := s.readFolder(ctx, path.Join(s.target.Path, folder))
	for _, e := range entries {
		if err == nil {
			err = pass(folded(e), e.Mode(), func() (fs.FileInfo, error) { return e, nil })
		}
	}
	return false, err
}

// readFolder reads a folder, with retries. A missing folder is empty, because tools that copy a repository may leave
// out empty folders. It is an error if the target is missing, or if it is that of the snapshots.
func (s *Store) readFolder(ctx context.Context, at string) (entries []fs.FileInfo, err error) {
	err = s.repeat(ctx, func(h *session.Session) (err error) {
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

func (s *Store) readDir(ctx context.Context, h *session.Session, at string) ([]fs.FileInfo, error) {
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
func isTemp(e fs.FileInfo) bool { return strings.HasPrefix(folded(e), store.TempPrefix) && !e.IsDir() }
