package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// RecordForget records in a tombstone that snapshots are about to be removed on purpose, with the content of those that
// can be brought back. It runs before the snapshots are removed, so that no concurrent command reports one as missing
// or puts it back. Without disk space for the tombstone, the snapshots are forgotten all the same, and recorded is
// false.
func (r *Repository) RecordForget(ctx context.Context, snapshots []Listed) (recorded bool, err error) {
	ids := make([]format.ID, len(snapshots))
	for i := range snapshots {
		ids[i] = snapshots[i].ID
	}
	all := ids
	recorded = true
	for part := range slices.Chunk(snapshots, inTombstone) {
		contents := make(map[format.ID][]byte)
		for _, l := range part {
			if l.Snapshot != nil {
				contents[l.ID] = snapshot.Encode(l.Snapshot)
			}
		}
		err := marks.PutTombstone(store.IntoReserve(ctx), r.st, r.keys, ids[:len(part)], contents)
		ids = ids[len(part):]
		if err != nil && !errors.Is(err, store.ErrNoSpace) {
			return false, err
		}
		recorded = recorded && err == nil
	}
	if !recorded {
		r.Forgot(all)
	}
	return recorded, nil
}

// Forgot removes snapshots from the record of this machine. For those with a tombstone that saves a later command to
// look for them.
func (r *Repository) Forgot(ids []format.ID) {
	if folder := r.CacheFolder(); folder != "" && len(ids) > 0 {
		_ = snapcache.RemovePublished(folder, ids) // a later command looks for them
	}
}

// RetractForget removes what RecordForget recorded of snapshots that could not be removed.
func (r *Repository) RetractForget(ctx context.Context, stay []format.ID) error {
	return marks.RetractTombstones(store.IntoReserve(ctx), r.st, r.keys, stay)
}

// inTombstone is how many snapshots one tombstone names: most of them have 1 to 2 KiB.
const inTombstone = 256

// Forgotten returns the forgotten snapshots whose content is in a tombstone, oldest first, each once. Stored is
// when it was forgotten. A damaged tombstone names nothing.
func (r *Repository) Forgotten(ctx context.Context) (all []Listed, err error) {
	err = marks.Forgotten(ctx, r.st, r.keys, func(id format.ID, content []byte, at time.Time) {
		sn, err := snapshot.Decode(content)
		if err == nil && !slices.ContainsFunc(all, func(l Listed) bool { return l.ID == id }) {
			all = append(all, Listed{ID: id, Snapshot: sn, Stored: at})
		}
	})
	slices.SortFunc(all, compareListed)
	return all, err
}

// namedMissing is how many missing snapshots a warning names.
const namedMissing = 5

// ReportMissing warns of snapshots that this machine has published, that are absent from listed, and that no tombstone
// names. Each is reported once. If the check fails, nothing is reported and the next call tries again.
func (r *Repository) ReportMissing(ctx context.Context, listed []Listed) {
	folder := r.CacheFolder()
	if folder == "" {
		return
	}
	all, err := snapcache.Published(folder)
	if err != nil || len(all) == 0 {
		return
	}
	for i := range listed {
		delete(all, listed[i].ID)
	}
	var absent []format.ID
	for id := range all {
		_, err := r.st.Stat(ctx, object.Named(store.Snapshot, id)) // the listing may be older than the snapshot
		switch {
		case errors.Is(err, store.ErrNotExist):
			absent = append(absent, id)
		case err != nil:
			return
		}
	}
	if len(absent) == 0 {
		return
	}
	missing, err := marks.WithoutTombstone(ctx, r.st, r.keys, absent)
	if err != nil {
		return
	}
	if err := snapcache.RemovePublished(folder, absent); err != nil || len(missing) == 0 {
		return
	}
	slices.SortFunc(missing, func(a, b format.ID) int { return all[b].Compare(all[a]) })
	var names []string
	for _, id := range missing[:min(len(missing), namedMissing)] {
		names = append(names, fmt.Sprintf("%s of %s", id.Short(), all[id].Format(time.DateTime)))
	}
	if more := len(missing) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d older ones", more))
	}
	r.warn("snapshots are missing that this machine saved and that no 'tidemark forget' removed: %s; either "+
		"the target was set back to an older state, or another program deleted files: run 'tidemark check', and put the "+
		"files back from a copy of the repository if there is one", strings.Join(names, ", "))
}
