package sftp

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// atOnce is how many folders a list reads at the same time.
	atOnce = 32
	// oneAnswer is how many entries a server sends in one answer at least. OpenSSH sends 100.
	oneAnswer = 64
)

// List reads a whole folder before it yields its files. Packs are in 257 folders; some of them are read at a time.
func (s *Store) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return store.Listing(ctx, kind, func(pass func(store.Info) error) error {
		f := store.FolderLister{Stat: s.Stat, Read: s.read, AtOnce: atOnce}
		return f.List(ctx, kind, pass)
	})
}

// read passes on the entries of a folder. What one answer holds is of one moment.
func (s *Store) read(ctx context.Context, folder string,
	pass func(id string, mode fs.FileMode, info func() (fs.FileInfo, error)) error) (bool, error) {
	entries, err := s.readFolder(ctx, folder)
	for _, e := range entries {
		if err == nil {
			err = pass(e.Name(), e.Mode(), func() (fs.FileInfo, error) { return e, nil })
		}
	}
	return len(entries) < oneAnswer, err
}

// readFolder reads a folder of the repository. A missing one is empty, because tools that copy a repository may leave
// out empty folders. It is an error if the repository is missing, or if it is the folder of the snapshots.
// The look at the repository is sent beside the listing, so that both are of one moment; folders in packs, which are
// many and seldom empty, take it afterwards.
func (s *Store) readFolder(ctx context.Context, folder string) (entries []fs.FileInfo, err error) {
	err = s.with(ctx, func(c *channel) (err error) {
		look := sync.OnceValue(func() error { return s.present(ctx, c) })
		if !strings.Contains(folder, "/") {
			var beside sync.WaitGroup
			beside.Go(func() { _ = look() })
			defer beside.Wait()
		}
		entries, err = s.readDir(ctx, c, s.at(folder))
		missing := errors.Is(err, fs.ErrNotExist)
		if err == nil && len(entries) > 0 || err != nil && !missing {
			return err
		}
		if gone := look(); gone != nil {
			return gone
		}
		if missing && folder == store.Snapshot.Folder() && s.witness.Load() != nil {
			return store.NoSnapshots(s.Location())
		}
		return nil
	})
	return entries, err
}

func (s *Store) readDir(ctx context.Context, c *channel, at string) (entries []fs.FileInfo, err error) {
	err = s.metadata(ctx, func() (err error) {
		entries, err = c.ReadDirContext(ctx, at)
		return err
	})
	return entries, err
}
