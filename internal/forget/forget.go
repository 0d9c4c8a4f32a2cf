package forget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Named returns the snapshots that references name, each once, including unreadable and missing ones. "latest" is
// refused, because a new snapshot may have become the latest since the list was shown.
func Named(ctx context.Context, r *repo.Repository, refs []string) ([]repo.Listed, error) {
	var named []repo.Listed
	for _, ref := range refs {
		if !repo.IsID(ref) {
			return nil, fmt.Errorf("%q: name the snapshot by its ID; 'tidemark snapshots' shows it", ref)
		}
		found, err := r.FindSnapshot(ctx, ref, repo.Filter{})
		if errors.Is(err, repo.ErrNoSnapshot) {
			found, err = r.FindMissing(ctx, ref)
		}
		if err != nil && (found.ID.IsZero() || !damaged(err)) {
			return nil, err
		}
		if !slices.ContainsFunc(named, func(l repo.Listed) bool { return l.ID == found.ID }) {
			named = append(named, found)
		}
	}
	return named, nil
}

// Drop removes snapshots and returns those that are gone, including one that was gone already. A failure does not stop
// the removal of the others. undo reports whether they can be brought back: a full disk has no space for what that
// needs.
func Drop(ctx context.Context, r *repo.Repository, list []repo.Listed) (dropped map[format.ID]bool, undo bool,
	err error) {
	if undo, err = r.RecordForget(ctx, list); err != nil {
		return nil, false, err
	}
	var mu sync.Mutex
	failed := make(map[format.ID]error)
	dropped = make(map[format.ID]bool, len(list))
	var removals errgroup.Group // without a context: what is on its way is waited for, and counts
	removals.SetLimit(object.SmallAtOnce)
	for _, l := range list {
		removals.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := store.Discard(ctx, r.Store(), object.Named(store.Snapshot, l.ID))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				dropped[l.ID] = true
			case ctx.Err() != nil:
				return context.Cause(ctx)
			default:
				failed[l.ID] = err
			}
			return nil
		})
	}
	if err := removals.Wait(); err != nil {
		return dropped, undo, err
	}
	r.Forgot(slices.Collect(maps.Keys(dropped)))
	if len(failed) > 0 {
		return dropped, undo, explain(ctx, r, failed)
	}
	return dropped, undo, nil
}

// explain returns the error for snapshots that could not be removed. What was recorded of those that are still there is
// removed.
func explain(ctx context.Context, r *repo.Repository, failed map[format.ID]error) error {
	var stay []format.ID
	var denied, failures []string
	for _, id := range slices.SortedFunc(maps.Keys(failed), format.ID.Compare) {
		if errors.Is(failed[id], store.ErrDenied) {
			denied = append(denied, id.Short())
		} else {
			failures = append(failures, fmt.Sprintf("%s: %v", id.Short(), failed[id]))
		}
		if _, err := r.Store().Stat(ctx, object.Named(store.Snapshot, id)); err == nil {
			stay = append(stay, id)
		}
	}
	if len(denied) > 0 {
		failures = append(failures, fmt.Sprintf("%s: this user may add files there, but not delete these (an append-only "+
			"share, an immutable file, or a missing right); forget as a user who may delete them, such as on the server",
			strings.Join(denied, ", ")))
	}
	if r.RetractForget(ctx, stay) != nil {
		failures = append(failures, "the record of this forget stays in the folder marks, so that a later loss of these "+
			"snapshots is not reported")
	}
	return fmt.Errorf("%w: %s", ErrSome, strings.Join(failures, "; "))
}

func damaged(err error) bool { return object.IsDamage(err) || errors.Is(err, format.ErrUnsupported) }
