package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// PutBack replaces damaged snapshots by the copies that this machine keeps, enters them in listed, and returns their
// IDs. It takes the same precautions as a backup that uses a snapshot as parent: the file exists after the lease of the
// session was put, and the snapshot is Certain. So no prune has removed what it needs, and none does before the session
// ends. A failure of one is a note.
func (r *Repository) PutBack(ctx context.Context, s *Session, listed []Listed) (back []format.ID, err error) {
	for i := range listed {
		l := &listed[i]
		if !object.IsDamage(l.Err) {
			continue
		}
		sealed := r.copies.Copy(l.ID)
		sn, err := r.openSnapshot(sealed)
		if err != nil || !s.Certain(l.ID, sn) {
			continue // no copy that can be used
		}
		if err := s.RenewOrFail(ctx); err != nil {
			return back, err
		}
		there, err := r.putBack(ctx, object.Named(store.Snapshot, l.ID), sealed)
		switch {
		case err != nil && ctx.Err() != nil:
			return back, context.Cause(ctx)
		case err != nil:
			r.note("snapshot %s is damaged and cannot be put back: %v", l.ID.Short(), err)
		case there:
			r.copies.Put(l.ID, sealed)
			l.Snapshot, l.Err = sn, nil
			back = append(back, l.ID)
		}
	}
	slices.SortFunc(listed, ByTime(time.Now()))
	return back, nil
}

// putBack puts the file of a snapshot that exists, and reports whether it stays. A snapshot that is forgotten meanwhile
// is removed again: a forget records that before it removes the file.
func (r *Repository) putBack(ctx context.Context, name store.Name, sealed []byte) (stays bool, err error) {
	if _, err := r.st.Stat(ctx, name); errors.Is(err, store.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("look at it: %w", err)
	}
	if err := object.Put(ctx, r.st, name, sealed, true); err != nil {
		return false, err
	}
	left, err := marks.WithoutTombstone(ctx, r.st, r.keys, []format.ID{seal.FileID(sealed)})
	if err != nil || len(left) > 0 {
		return err == nil, err
	}
	if err := store.Discard(ctx, r.st, name); err != nil {
		return false, fmt.Errorf("forget it again: %w", err)
	}
	return false, nil
}
