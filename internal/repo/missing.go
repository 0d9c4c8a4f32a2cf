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
	"github.com/tidemark-backup/tidemark/internal/repo/published"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// RecordForget records that snapshots are about to be removed on purpose. It leaves a tombstone for those with content,
// which can be brought back, and for those that other machines may have published. It removes the others from the
// record of this machine. It runs before the snapshots are removed, so that no concurrent command reports one as
// missing. Without disk space for the tombstone, the snapshots are forgotten all the same, and recorded is false.
func (r *Repository) RecordForget(ctx context.Context, snapshots []Listed) (recorded bool, err error) {
	var ids, all []format.ID
	for i := range snapshots {
		if all = append(all, snapshots[i].ID); snapshots[i].Snapshot == nil {
			ids = append(ids, snapshots[i].ID)
		}
	}
	ids = r.Forgot(ids)
	recorded = true
	for part := range slices.Chunk(snapshots, inTombstone) {
		contents := make(map[format.ID][]byte)
		forgotten := slices.DeleteFunc(slices.Clone(ids), func(id format.ID) bool {
			return !slices.ContainsFunc(part, func(l Listed) bool { return l.ID == id })
		})
		for _, l := range part {
			if l.Snapshot != nil {
				contents[l.ID] = snapshot.Encode(l.Snapshot)
				forgotten = append(forgotten, l.ID)
			}
		}
		if len(forgotten) == 0 {
			continue
		}
		err := marks.PutTombstone(store.IntoReserve(ctx), r.st, r.keys, forgotten, contents)
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

// Forgot removes snapshots from the record of this machine, and returns those that were not in it. For those with a
// tombstone that saves a later command to look for them.
func (r *Repository) Forgot(ids []format.ID) (unknown []format.ID) {
	if folder := r.CacheFolder(); folder != "" && len(ids) > 0 {
		if unknown, err := published.Remove(folder, ids); err == nil {
			return unknown
		}
	}
	return ids
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
	all, err := published.Read(folder)
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
	if _, err := published.Remove(folder, absent); err != nil || len(missing) == 0 {
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
