package prune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// Extend extends the locks of all files that are stored, one request for each, when half of the term has passed since
// the last time, or at once if the config says another lock, by which other machines may have stored files since. held
// is what it returned then: no lock of a file that existed ends before. A zero held is due: nothing is known. A dry run
// only counts.
//
// A file whose lock the server does not extend keeps no other from that. An Extend that fails or is cut off leaves
// locks that end at different times, none of them earlier than before, and the next one begins at the start. It needs
// no survey, so it is also done where a prune fails: a file too many stays for one term more.
func Extend(ctx context.Context, r *repo.Repository, held time.Time, dry bool) (n uint64, until time.Time, err error) {
	st := r.Store()
	lock := store.LockOf(st)
	if lock == nil || lock.Name == "" {
		return 0, held, nil
	}
	now := time.Now()
	due := lock.Config != lock.Name || !held.After(now.Add(lock.Term/2))
	if until = now.Add(lock.Term); !due && !held.After(until) {
		return 0, held, nil
	}
	var extended atomic.Uint64
	var mu sync.Mutex // guards what follows
	var refused int
	var first error
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
				switch {
				case errors.Is(err, store.ErrNotExist): // removed meanwhile
					return nil
				case err == nil:
					extended.Add(1)
				case errors.Is(err, store.ErrDenied):
					mu.Lock()
					defer mu.Unlock()
					first = cmp.Or(first, err)
					if refused++; refused <= mostRefused {
						return nil
					}
				}
				return err
			})
			if below.Err() != nil { // one has failed
				break
			}
		}
	}
	err = g.Wait()
	if refused > 1 {
		first = fmt.Errorf("%w; likewise for %d more files", first, refused-1)
	}
	if err := errors.Join(err, first); err != nil || dry {
		return extended.Load(), held, err
	}
	return extended.Load(), until, nil
}

// mostRefused is how many files may be refused until an Extend ends: the keys lack the right then.
const mostRefused = 100
