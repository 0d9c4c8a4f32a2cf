package repair

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// eachSegment visits the index segments that no other supersedes. Those that cannot be read are visited with their
// error.
func eachSegment(ctx context.Context, r *repo.Repository, visit object.VisitSegment) error {
	listed, err := object.List(ctx, r.Store(), store.Index)
	if err != nil {
		return err
	}
	segments := object.Segments{Store: r.Store(), Keys: r.Keys()}
	readable := func(_ object.Info, _ *index.Segment, err error) error {
		if err != nil && !object.IsDamage(err) && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("read index: %w", err)
		}
		return nil
	}
	var standing object.Standing
	if err := segments.Update(ctx, &standing, listed, readable); err != nil {
		return err
	}
	return segments.Each(ctx, standing.Counting, func(info object.Info, seg *index.Segment, err error) error {
		if errors.Is(err, store.ErrNotExist) {
			return nil // another writer has replaced it
		}
		if err := readable(info, seg, err); err != nil {
			return err
		}
		return visit(info, seg, err)
	})
}

// noPrune fails if a prune is at work.
func noPrune(ctx context.Context, s *repo.Session) error {
	others, err := s.Others(ctx)
	if o := session.Pruning(others); err == nil && o != nil {
		err = fmt.Errorf("%w: process %d on %s", ErrBusy, o.Lease.PID, o.Lease.Host)
	}
	return err
}
