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

// placed is a file that this session stored. One is kept for every pack and index segment: 40 bytes for each 16 MiB sent.
type placed struct {
	id   format.ID
	size int64
}

// placements are the files that this session stored and a snapshot may need.
type placements struct {
	mu       sync.Mutex
	packs    []placed
	segments []placed
}

func (p *placements) add(kind store.Kind, id format.ID, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == store.Pack {
		p.packs = append(p.packs, placed{id, int64(size)})
	} else {
		p.segments = append(p.segments, placed{id, int64(size)})
	}
}

// of returns what was stored of a kind until now. What is returned is only ever appended to.
func (p *placements) of(kind store.Kind) []placed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == store.Pack {
		return p.packs
	}
	return p.segments
}

// lookAgain demands that all packs and index segments that this session stored are still there, in their size. Each was
// proven when it was put; but a repository that was meanwhile replaced by a copy, or set back to an earlier state, has
// lost them again, and a snapshot of them would be one that cannot be restored.
func (s *Session) lookAgain(ctx context.Context) error {
	for _, kind := range []store.Kind{store.Pack, store.Index} {
		if err := s.stillThere(ctx, kind, s.placed.of(kind)); err != nil {
			return err
		}
	}
	return nil
}

// packsThere is lookAgain of the packs that an index segment is about to name. A segment that names packs which are not
// there would be taken for a damage of the repository ever after.
func (s *Session) packsThere(ctx context.Context, packs []index.Pack) error {
	files := make([]placed, len(packs))
	for i := range packs {
		files[i] = placed{packs[i].ID, int64(packs[i].Size)}
	}
	return s.stillThere(ctx, store.Pack, files)
}

// stillThere looks at files, as many at once as may be uploaded.
func (s *Session) stillThere(ctx context.Context, kind store.Kind, files []placed) error {
	if s.opt.DryRun {
		return nil
	}
	what := "pack"
	if kind == store.Index {
		what = "index segment"
	}
	g, looking := errgroup.WithContext(ctx)
	g.SetLimit(s.opt.Uploads)
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
				return fmt.Errorf("look once more at %s %s: %w", what, f.id.Short(), err)
			case there.Size != f.size:
				return fmt.Errorf("%s %s, which this run has stored with %d bytes, has %d now: %w", what, f.id.Short(), f.size,
					there.Size, ErrReplaced)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
