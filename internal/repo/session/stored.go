package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// storedFile is a pack or an index segment that this session stored and a snapshot may need. One is kept for each: 48
// bytes for 16 MiB sent.
type storedFile struct {
	kind store.Kind
	id   format.ID
	size int64
}

func (f *storedFile) name() store.Name { return object.Named(f.kind, f.id) }

// storedFiles returns the files that were stored so far. It is only ever appended to.
func (s *Session) storedFiles() []storedFile {
	s.filesMu.Lock()
	defer s.filesMu.Unlock()
	return s.files
}

// Wrote returns the packs that this session stored.
func (s *Session) Wrote() map[format.ID]bool {
	wrote := make(map[format.ID]bool)
	for _, f := range s.storedFiles() {
		if f.kind == store.Pack {
			wrote[f.id] = true
		}
	}
	return wrote
}

// recheckStored requires that all packs and index segments that this session stored still exist, in their size. Each
// was verified when it was put. But if the repository was since replaced by a copy, or reset to an earlier state, a
// snapshot of them could not be restored.
func (s *Session) recheckStored(ctx context.Context) error {
	return s.requireStored(ctx, s.storedFiles())
}

const (
	// inListing is how many files one request lists.
	inListing = 1000
	// listingCost is how many looks at a file cost as much as one request that lists.
	listingCost = 12
)

// unlisted returns those of the stored files that a listing does not show in their size. Where a listing costs more
// than a look at each file, these are all. One request more than needed is no cost.
func (s *Session) unlisted(ctx context.Context, files []storedFile) (left []storedFile, err error) {
	there := s.named.Load()
	pages := 1 + (int(there)+len(files))/inListing
	together := store.Together(s.st)
	if together == nil || there < 0 || len(files) <= 2 || pages > 1 && len(files) < listingCost*pages {
		return files, nil
	}
	kinds := []store.Kind{store.Index, store.Pack}
	if !slices.ContainsFunc(files, func(f storedFile) bool { return f.kind == store.Index }) {
		kinds = kinds[1:]
	}
	sizes := make(map[store.Name]int64, len(files))
	for _, f := range files {
		sizes[f.name()] = f.size
	}
	for info, err := range together(ctx, kinds...) {
		if err != nil {
			return nil, fmt.Errorf("check again what was stored: %w", err)
		}
		if size, ours := sizes[info.Name]; ours && size == info.Size {
			delete(sizes, info.Name)
		}
	}
	for _, f := range files {
		if _, missing := sizes[f.name()]; missing {
			left = append(left, f)
		}
	}
	return left, nil
}

// requirePacks is recheckStored for the packs that an index segment is about to name. A segment that names missing
// packs would be reported as damage by every later check.
func (s *Session) requirePacks(ctx context.Context, packs []index.Pack) error {
	files := make([]storedFile, len(packs))
	for i := range packs {
		files[i] = storedFile{store.Pack, packs[i].ID, int64(packs[i].Size)}
	}
	return s.requireStored(ctx, files)
}

// requireStored requires that files exist.
func (s *Session) requireStored(ctx context.Context, files []storedFile) error {
	if s.opt.DryRun {
		return nil
	}
	files, err := s.unlisted(ctx, files)
	if err != nil {
		return err
	}
	g, looking := errgroup.WithContext(ctx)
	g.SetLimit(object.SmallAtOnce)
	for _, f := range files {
		if looking.Err() != nil {
			break
		}
		g.Go(func() error {
			what := "pack"
			if f.kind == store.Index {
				what = "index segment"
			}
			there, err := s.st.Stat(looking, f.name())
			switch {
			case errors.Is(err, store.ErrNotExist):
				return fmt.Errorf("%s %s, which this run has stored, is not there any more: %w", what, f.id.Short(), ErrReplaced)
			case err != nil:
				return fmt.Errorf("check again %s %s: %w", what, f.id.Short(), err)
			case there.Size != f.size:
				return fmt.Errorf("%s %s, which this run has stored with %d bytes, has %d now: %w", what, f.id.Short(), f.size,
					there.Size, ErrReplaced)
			}
			return nil
		})
	}
	if err := s.removed(ctx, g.Wait()); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// removed returns an error about a file that this run stored as ErrLeaseLost, if the file is gone and a prune may have
// treated the run as dead.
func (s *Session) removed(ctx context.Context, err error) error {
	if (errors.Is(err, ErrReplaced) || errors.Is(err, store.ErrNotExist)) && s.lease.treatedAsDead(ctx) {
		return fmt.Errorf("a prune has removed what this run stored: %w", ErrLeaseLost)
	}
	return err
}
