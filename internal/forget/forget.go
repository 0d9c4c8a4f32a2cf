package forget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Named returns the snapshots that references name, each once, also those that cannot be read. "latest" is not among what
// may be named here: which one that is may have changed since somebody looked.
func Named(ctx context.Context, r *repo.Repository, refs []string) ([]repo.Listed, error) {
	var named []repo.Listed
	for _, ref := range refs {
		if ref == repo.Latest {
			return nil, fmt.Errorf("%q: name the snapshot by its ID; 'tidemark snapshots --latest 1' shows it", ref)
		}
		found, err := r.FindSnapshot(ctx, ref, repo.Filter{})
		if err != nil && (found.ID.IsZero() || !damaged(err)) {
			return nil, err
		}
		if !slices.ContainsFunc(named, func(l repo.Listed) bool { return l.ID == found.ID }) {
			named = append(named, found)
		}
	}
	return named, nil
}

// Drop removes snapshots and counts those that are gone, which may be one that was so already. When one cannot be removed
// the others still are.
func Drop(ctx context.Context, r *repo.Repository, list []repo.Listed) (dropped int, err error) {
	var failures []string
	for _, l := range list {
		err := r.Store().Delete(ctx, object.Named(store.Snapshot, l.ID))
		if err != nil && !errors.Is(err, store.ErrNotExist) {
			if ctx.Err() != nil {
				return dropped, context.Cause(ctx)
			}
			failures = append(failures, fmt.Sprintf("%s: %v", l.ID.Short(), err))
			continue
		}
		dropped++
	}
	if len(failures) > 0 {
		return dropped, fmt.Errorf("%w: %s", ErrSome, strings.Join(failures, "; "))
	}
	return dropped, nil
}

func damaged(err error) bool { return object.IsDamage(err) || errors.Is(err, format.ErrUnsupported) }
