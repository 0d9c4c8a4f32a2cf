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
	ids := idsOf(snapshots)
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

// Remove removes snapshots, after a tombstone for them. One that is gone already is no error.
func (r *Repository) Remove(ctx context.Context, snapshots []Listed) error {
	if len(snapshots) == 0 {
		return nil
	}
	if _, err := r.RecordForget(ctx, snapshots); err != nil {
		return err
	}
	for _, l := range snapshots {
		if err := store.Discard(ctx, r.st, object.Named(store.Snapshot, l.ID)); err != nil {
			return fmt.Errorf("remove snapshot %s: %w", l.ID.Short(), err)
		}
	}
	r.Forgot(idsOf(snapshots))
	return nil
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
	slices.SortFunc(all, ByTime(time.Now()))
	return all, err
}

// Missing returns the snapshots that this machine has published or seen, that are absent from listed and from the
// target, and that no tombstone names, newest first. Their content is that of the copy on this machine, nil without
// one. Stored is when they were published. matter, if not nil, selects those that are looked for at all, by what this
// machine knows.
func (r *Repository) Missing(ctx context.Context, listed []Listed, matter func(*Listed) (bool, error)) ([]Listed,
	error) {
	return r.missing(ctx, listed, func(l *Listed, _ snapcache.Publication) (bool, error) {
		l.Snapshot, _ = r.openSnapshot(r.copies.Copy(l.ID))
		if matter == nil {
			return true, nil
		}
		return matter(l)
	})
}

// missing is Missing, without the contents.
func (r *Repository) missing(ctx context.Context, listed []Listed,
	matter func(*Listed, snapcache.Publication) (bool, error)) ([]Listed, error) {
	all, err := r.unlisted(listed)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for id, p := range all {
		l := Listed{ID: id, Stored: p.At}
		does, err := matter(&l, p)
		if err != nil {
			return nil, err
		}
		if does {
			list = append(list, l)
		}
	}
	ids, err := r.lost(ctx, idsOf(list))
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l Listed) bool { return !slices.Contains(ids, l.ID) })
	slices.SortFunc(list, func(a, b Listed) int { return b.Stored.Compare(a.Stored) })
	return list, nil
}

func idsOf(list []Listed) []format.ID {
	ids := make([]format.ID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

// unlisted returns the record of the snapshots that this machine has published or seen and that are absent from listed.
// It adds to the record what is listed and can be read. Those that were missing and are there again are no longer
// recorded as missing.
func (r *Repository) unlisted(listed []Listed) (snapcache.Snapshots, error) {
	folder := r.CacheFolder()
	if folder == "" {
		return nil, nil
	}
	all, err := snapcache.Published(folder)
	if err != nil {
		return nil, err
	}
	var again []format.ID
	seen := make(snapcache.Snapshots)
	for i := range listed {
		id := listed[i].ID
		p, known := all[id]
		switch {
		case p.Missing:
			again = append(again, id)
		case !known && listed[i].Snapshot != nil:
			seen[id] = snapcache.Publication{At: listed[i].Stored}
		}
		delete(all, id)
	}
	if len(again) > 0 {
		err = snapcache.SetMissing(folder, again, false)
	}
	if len(seen) > 0 {
		err = errors.Join(err, snapcache.AddSeen(folder, seen))
	}
	return all, err
}

// lost returns which of some unlisted snapshots are missing: neither on the target nor in a tombstone. Forgotten ones
// are removed from the record.
func (r *Repository) lost(ctx context.Context, unlisted []format.ID) ([]format.ID, error) {
	var absent []format.ID
	for _, id := range unlisted {
		_, err := r.st.Stat(ctx, object.Named(store.Snapshot, id)) // the listing may be older than the snapshot
		switch {
		case errors.Is(err, store.ErrNotExist):
			absent = append(absent, id)
		case err != nil:
			return nil, fmt.Errorf("look for snapshot %s: %w", id.Short(), err)
		}
	}
	if len(absent) == 0 {
		return nil, nil
	}
	missing, err := marks.WithoutTombstone(ctx, r.st, r.keys, absent)
	if err != nil {
		return nil, err
	}
	r.Forgot(slices.DeleteFunc(absent, func(id format.ID) bool { return slices.Contains(missing, id) }))
	return missing, nil
}

// namedMissing is how many missing snapshots a message names.
const namedMissing = 5

// NameMissing names missing snapshots, newest first, with the times of their publication.
func NameMissing(missing []Listed) string {
	var names []string
	for _, l := range missing[:min(len(missing), namedMissing)] {
		names = append(names, fmt.Sprintf("%s of %s", l.ID.Short(), l.Stored.Format(time.DateTime)))
	}
	if more := len(missing) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d older ones", more))
	}
	return strings.Join(names, ", ")
}

// ReportMissing warns of missing snapshots. Each is reported once. If the check fails, nothing is reported and the next
// call tries again.
func (r *Repository) ReportMissing(ctx context.Context, listed []Listed) {
	missing, err := r.missing(ctx, listed, func(_ *Listed, p snapcache.Publication) (bool, error) {
		return !p.Missing, nil
	})
	if err != nil || len(missing) == 0 || snapcache.SetMissing(r.CacheFolder(), idsOf(missing), true) != nil {
		return
	}
	r.warn("snapshots are missing that this machine saved or saw and that no 'tidemark forget' removed: %s; either "+
		"the target was set back to an older state or is an older copy, or another program deleted files: run 'tidemark "+
		"check'; 'tidemark forget --undo' with their IDs brings them back while their data is there, 'tidemark forget' "+
		"accepts the loss",
		NameMissing(missing))
}

// FindMissing returns the missing snapshot whose ID begins with ref. The error wraps ErrNoSnapshot if there is none.
func (r *Repository) FindMissing(ctx context.Context, ref string) (Listed, error) {
	listed, err := r.Snapshots(ctx)
	if err != nil {
		return Listed{}, err
	}
	prefix := strings.ToLower(ref)
	found, err := r.Missing(ctx, listed, func(l *Listed) (bool, error) {
		return strings.HasPrefix(l.ID.String(), prefix), nil
	})
	switch {
	case err != nil:
		return Listed{}, err
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return Listed{}, fmt.Errorf("find snapshot %q: %w", ref, ErrNoSnapshot)
	}
	return Listed{}, fmt.Errorf("find snapshot: %w", ambiguousID(ref, idsOf(found)))
}
