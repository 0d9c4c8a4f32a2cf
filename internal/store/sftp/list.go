package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

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
	return func(yield func(store.Info, error) bool) {
		fail := func(err error) { yield(store.Info{}, fmt.Errorf("list %s: %w", kind, err)) }
		if !kind.Valid() {
			fail(store.ErrName)
			return
		}
		if kind == store.Config {
			info, err := s.Stat(ctx, store.Name{Kind: kind})
			if !errors.Is(err, store.ErrNotExist) {
				yield(info, err)
			}
			return
		}
		folders, first, err := s.foldersOf(ctx, kind)
		if err != nil { // a part of the packs is no list of packs
			fail(err)
			return
		}
		pass := func(infos []store.Info) bool {
			for _, info := range infos {
				if ctx.Err() != nil {
					fail(context.Cause(ctx))
					return false
				}
				if !yield(info, nil) {
					return false
				}
			}
			return true
		}
		if !pass(first) {
			return
		}
		for some := range slices.Chunk(folders, atOnce) {
			found, err := s.listAll(ctx, kind, some)
			if err != nil {
				fail(err)
				return
			}
			if !pass(slices.Concat(found...)) {
				return
			}
		}
	}
}

// foldersOf returns the folders that hold the files of a kind and, of packs, those of trees, which it lists meanwhile.
func (s *Store) foldersOf(ctx context.Context, kind store.Kind) (folders []string, trees []store.Info, err error) {
	if kind != store.Pack {
		return []string{kind.Folder()}, nil, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		trees, err = s.listFolder(ctx, kind, store.Trees)
		return err
	})
	group.Go(func() error {
		entries, err := s.readFolder(ctx, kind.Folder())
		for _, e := range entries {
			if id := e.Name(); len(id) <= 2 && store.ValidID(id) && e.IsDir() {
				folders = append(folders, path.Join(kind.Folder(), id))
			}
			store.MisplacedInPacks(ctx, e.Name(), e.Mode())
		}
		return err
	})
	err = group.Wait()
	return folders, trees, err
}

// listAll lists folders at the same time.
func (s *Store) listAll(ctx context.Context, kind store.Kind, folders []string) ([][]store.Info, error) {
	found := make([][]store.Info, len(folders))
	group, ctx := errgroup.WithContext(ctx)
	for i, folder := range folders {
		group.Go(func() (err error) {
			found[i], err = s.listFolder(ctx, kind, folder)
			return err
		})
	}
	return found, group.Wait()
}

// listFolder returns the stored files of a folder. Others may add leases while a long folder is read, which may then
// miss one that was there before; a missed lease could cost a writer its packs. It is read again until a reading finds
// nothing new.
func (s *Store) listFolder(ctx context.Context, kind store.Kind, folder string) ([]store.Info, error) {
	var infos []store.Info
	seen := make(map[store.Name]bool)
	for {
		entries, err := s.readFolder(ctx, folder)
		if err != nil {
			return nil, err
		}
		news := false
		for _, e := range entries {
			name := store.Name{Kind: kind, ID: e.Name()}
			switch {
			case name.Check() != nil || !e.Mode().IsRegular() && !e.IsDir() || seen[name]:
			case e.IsDir() && !store.IsFence(kind, e.Mode()), path.Dir(name.Path()) != folder:
				store.Misplaced(ctx, name, folder, e.IsDir())
			default:
				news = true
				if kind == store.Lease {
					seen[name] = true
				}
				infos = append(infos, store.Describe(name, e))
			}
		}
		if kind != store.Lease || !news || len(entries) < oneAnswer {
			return infos, nil
		}
	}
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
