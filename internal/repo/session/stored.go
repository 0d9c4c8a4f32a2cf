package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// storedFile is a file that this session stored. One is kept for every pack and index segment: 40 bytes for each 16 MiB
// sent.
type storedFile struct {
	id   format.ID
	size int64
}

// storedFiles are the files that this session stored and a snapshot may need.
type storedFiles struct {
	mu       sync.Mutex
	packs    []storedFile
	segments []storedFile
}

func (p *storedFiles) add(kind store.Kind, id format.ID, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == store.Pack {
		p.packs = append(p.packs, storedFile{id, int64(size)})
	} else {
		p.segments = append(p.segments, storedFile{id, int64(size)})
	}
}

// of returns the files of a kind that were stored so far. The returned slice is only ever appended to.
func (p *storedFiles) of(kind store.Kind) []storedFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == store.Pack {
		return p.packs
	}
	return p.segments
}

// Wrote returns the packs that this session stored.
func (s *Session) Wrote() map[format.ID]bool {
	wrote := make(map[format.ID]bool)
	for _, f := range s.files.of(store.Pack) {
		wrote[f.id] = true
	}
	return wrote
}

// recheckStored requires that all packs and index segments that this session stored still exist, in their size. Each
// was verified when it was put. But if the repository was since replaced by a copy, or reset to an earlier state, a
// snapshot of them could not be restored.
func (s *Session) recheckStored(ctx context.Context) error {
	packs, segments, err := s.unlisted(ctx, s.files.of(store.Pack), s.files.of(store.Index))
	if err != nil {
		return err
	}
	beside := make(chan error, 1)
	go func() { beside <- s.requireStored(ctx, store.Index, segments) }()
	err = s.requireStored(ctx, store.Pack, packs)
	if failed := <-beside; err == nil {
		err = failed
	}
	return err
}

const (
	// inListing is how many files one request lists.
	inListing = 1000
	// listingCost is how many looks at a file cost as much as one request that lists.
	listingCost = 12
)

// unlisted returns those of the stored files that a listing does not show in their size. Where a listing costs more
// than a look at each file, these are all. One request more than needed is no cost.
func (s *Session) unlisted(ctx context.Context, packs, segments []storedFile) (_, _ []storedFile, err error) {
	there, files := s.named.Load(), len(packs)+len(segments)
	pages := 1 + (int(there)+files)/inListing
	together := store.Together(s.st)
	if together == nil || there < 0 || s.opt.DryRun || files <= 2 || pages > 1 && files < listingCost*pages {
		return packs, segments, nil
	}
	kinds := []store.Kind{store.Index, store.Pack}
	if len(segments) == 0 {
		kinds = kinds[1:]
	}
	sizes := make(map[store.Name]int64, files)
	for _, f := range packs {
		sizes[object.Named(store.Pack, f.id)] = f.size
	}
	for _, f := range segments {
		sizes[object.Named(store.Index, f.id)] = f.size
	}
	for info, err := range together(ctx, kinds...) {
		if err != nil {
			return nil, nil, fmt.Errorf("check again what was stored: %w", err)
		}
		if size, ours := sizes[info.Name]; ours && size == info.Size {
			delete(sizes, info.Name)
		}
	}
	rest := func(kind store.Kind, files []storedFile) (left []storedFile) {
		for _, f := range files {
			if _, missing := sizes[object.Named(kind, f.id)]; missing {
				left = append(left, f)
			}
		}
		return left
	}
	return rest(store.Pack, packs), rest(store.Index, segments), nil
}

// requirePacks is recheckStored for the packs that an index segment is about to name. A segment that names missing
// packs would be reported as damage by every later check.
func (s *Session) requirePacks(ctx context.Context, packs []index.Pack) error {
	files := make([]storedFile, len(packs))
	for i := range packs {
		files[i] = storedFile{packs[i].ID, int64(packs[i].Size)}
	}
	files, _, err := s.unlisted(ctx, files, nil)
	if err != nil {
		return err
	}
	return s.requireStored(ctx, store.Pack, files)
}

// requireStored checks files.
func (s *Session) requireStored(ctx context.Context, kind store.Kind, files []storedFile) error {
	if s.opt.DryRun {
		return nil
	}
	what := "pack"
	if kind == store.Index {
		what = "index segment"
	}
	g, looking := errgroup.WithContext(ctx)
	g.SetLimit(object.SmallAtOnce)
	for _, f := range files {
		if looking.Err() != nil {
			break
		}
		g.Go(func() error {
			there, err := s.st.Stat(looking, object.Named(kind, f.id))
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
