package prune

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// Extend extends the locks of all files that are stored, one request for each, when half of the term has passed since
// the last time. held is what it returned then: no lock of a file that existed ends before. A zero held is due: nothing
// is known. A dry run only counts.
//
// An Extend that is cut off leaves locks that end at different times, none of them earlier than before, and the next
// one begins at the start. It needs no survey, so it is also done where a prune fails: a file too many stays for one
// term more.
func Extend(ctx context.Context, r *repo.Repository, held time.Time, dry bool) (n uint64, until time.Time, err error) {
	st := r.Store()
	lock := store.LockOf(st)
	if lock == nil {
		return 0, held, nil
	}
	now := time.Now()
	if until = now.Add(lock.Term); held.After(now.Add(lock.Term/2)) && !held.After(until) {
		return 0, held, nil
	}
	var extended atomic.Uint64
	g, below := errgroup.WithContext(ctx)
	g.SetLimit(object.SmallAtOnce)
	for kind := range store.Kinds() {
		if !kind.Locked() {
			continue
		}
		for info, failed := range st.List(ctx, kind) {
			if failed != nil {
				return extended.Load(), held, errors.Join(fmt.Errorf("extend locks: %w", failed), g.Wait())
			}
			if dry {
				extended.Add(1)
				continue
			}
			g.Go(func() error {
				err := lock.Extend(below, info.Name)
				if errors.Is(err, store.ErrNotExist) { // removed meanwhile
					return nil
				}
				if err == nil {
					extended.Add(1)
				}
				return err
			})
			if below.Err() != nil { // one has failed
				break
			}
		}
	}
	if err := g.Wait(); err != nil || dry {
		return extended.Load(), held, err
	}
	return extended.Load(), until, nil
}
