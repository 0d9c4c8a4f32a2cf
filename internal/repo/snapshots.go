package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Protected is the tag of a snapshot that no policy of forget drops. It is removed only when its ID is given.
const Protected = "protected"

// Listed is one snapshot of the repository.
type Listed struct {
	ID       format.ID
	Snapshot *snapshot.Snapshot // nil if it cannot be read
	Err      error              // why it cannot be read
	Stored   time.Time          // time of storage by the clock of the target; zero: not listed

	// Unread are the unreadable snapshots, if this one was selected as the latest: any of them may be newer.
	Unread []format.ID
}

// Filter selects snapshots. An empty field matches all.
type Filter struct {
	Hosts []string   // made on one of these hosts
	Paths []string   // having all of these among its sources
	Exact bool       // and no source that is not in Paths
	Tags  [][]string // having all tags of one of these lists; an empty list stands for snapshots without tags
}

// String completes "snapshots": " of host a or b, with /home, tagged x"; "" for a filter that all snapshots pass.
func (f Filter) String() string {
	var parts []string
	if len(f.Hosts) > 0 {
		parts = append(parts, "of host "+strings.Join(f.Hosts, " or "))
	}
	if len(f.Paths) > 0 {
		parts = append(parts, "with "+strings.Join(f.Paths, " and "))
	}
	if len(f.Tags) > 0 {
		lists := make([]string, len(f.Tags))
		for i, list := range f.Tags {
			if lists[i] = "tagged " + strings.Join(list, " and "); strings.Join(list, "") == "" {
				lists[i] = "without tags"
			}
		}
		parts = append(parts, strings.Join(lists, " or "))
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + human.Printable(strings.Join(parts, ", "))
}

// Match reports whether s passes the filter.
func (f Filter) Match(s *snapshot.Snapshot) bool {
	if len(f.Hosts) > 0 && !slices.Contains(f.Hosts, s.Host) {
		return false
	}
	for _, path := range f.Paths {
		if !slices.Contains(s.Sources, path) {
			return false
		}
	}
	if f.Exact && slices.ContainsFunc(s.Sources, func(source string) bool { return !slices.Contains(f.Paths, source) }) {
		return false
	}
	return len(f.Tags) == 0 || slices.ContainsFunc(f.Tags, func(list []string) bool {
		if len(list) == 0 || len(list) == 1 && list[0] == "" {
			return len(s.Tags) == 0
		}
		for _, tag := range list {
			if !slices.Contains(s.Tags, tag) {
				return false
			}
		}
		return true
	})
}

// fromTarget is the key of FromTarget in a context.
type fromTarget struct{}

// FromTarget returns a context in which each snapshot is read from the target, also if this machine has a copy: for
// commands that look for damage, or that prove what they have stored.
func FromTarget(ctx context.Context) context.Context {
	return context.WithValue(ctx, fromTarget{}, true)
}

// Snapshots returns the listed snapshots, oldest first. Unreadable ones come last, with their error. A snapshot is read
// once: later calls use the copy that this machine keeps, if its size is that of the listing.
func (r *Repository) Snapshots(ctx context.Context) ([]Listed, error) {
	infos, kept, err := r.listSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	all, missing, err := r.loadAll(ctx, infos, kept)
	if err != nil {
		return nil, err
	}
	again, kept, err := r.listMissing(ctx, missing)
	if err != nil {
		return nil, err
	}
	found, missing, err := r.loadAll(ctx, again, kept)
	if err != nil {
		return nil, err
	}
	for i := range missing {
		missing[i].Err = fmt.Errorf("it was listed twice, and not found both times: %w", missing[i].Err)
	}
	all = slices.Concat(all, found, missing)
	slices.SortFunc(all, ByTime(time.Now()))
	return all, nil
}

// loadAll reads snapshots, and returns separately those that no longer exist.
func (r *Repository) loadAll(ctx context.Context, infos []object.Info, kept map[format.ID]bool) (all, missing []Listed,
	err error) {
	all = make([]Listed, 0, len(infos))
	err = object.InOrder(ctx, len(infos), object.SmallAtOnce,
		func(ctx context.Context, i int) (Listed, error) {
			l := r.loadListed(ctx, infos[i], kept[infos[i].ID])
			if l.Err != nil && !object.IsDamage(l.Err) && !errors.Is(l.Err, format.ErrUnsupported) &&
				!errors.Is(l.Err, store.ErrNotExist) {
				return Listed{}, l.Err
			}
			return l, nil
		},
		func(_ int, l Listed) error {
			if errors.Is(l.Err, store.ErrNotExist) {
				missing = append(missing, l)
			} else {
				all = append(all, l)
			}
			return nil
		})
	if err != nil {
		return nil, nil, fmt.Errorf("read snapshots: %w", err)
	}
	return all, missing, nil
}

// listMissing returns which of the snapshots that were listed and not found are still listed. The others were forgotten
// meanwhile. A failed read alone is no proof of that: a server also reports files as missing while their disk is
// briefly away. An older snapshot would then be taken for the latest.
func (r *Repository) listMissing(ctx context.Context, missing []Listed) (infos []object.Info, kept map[format.ID]bool,
	err error) {
	if len(missing) == 0 {
		return nil, nil, nil
	}
	infos, kept, err = r.listSnapshots(ctx)
	ids := make(map[format.ID]bool, len(missing))
	for _, l := range missing {
		ids[l.ID] = true
	}
	return slices.DeleteFunc(infos, func(info object.Info) bool { return !ids[info.ID] }), kept, err
}

// listSnapshots lists the snapshots, newest first, and removes the copies of others that this machine has not made.
// kept says of each whether there is space for a copy on this machine.
func (r *Repository) listSnapshots(ctx context.Context) (infos []object.Info, kept map[format.ID]bool, err error) {
	for info, err := range object.Each(ctx, r.st, store.Snapshot) {
		if err != nil {
			return nil, nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b object.Info) int { return b.Modified.Compare(a.Modified) })
	kept = make(map[format.ID]bool, len(infos))
	left := int64(snapcache.Limit)
	for _, info := range infos {
		if kept[info.ID] = info.Size <= left; kept[info.ID] {
			left -= info.Size
		}
	}
	r.copies.Retain(kept)
	return infos, kept, nil
}

func (r *Repository) loadListed(ctx context.Context, info object.Info, keep bool) Listed {
	s, err := r.loadSnapshot(ctx, info, keep)
	return Listed{ID: info.ID, Snapshot: s, Err: err, Stored: info.Modified}
}

func (r *Repository) loadSnapshot(ctx context.Context, info object.Info, keep bool) (*snapshot.Snapshot, error) {
	if ctx.Value(fromTarget{}) == nil {
		if sealed := r.copies.Get(info.ID); int64(len(sealed)) == info.Size {
			if s, err := r.openSnapshot(sealed); err == nil {
				return s, nil
			}
		}
	}
	name := object.Named(store.Snapshot, info.ID)
	sealed, err := object.ReadNamed(ctx, r.st, name, info.Size)
	if object.IsDamage(err) {
		r.copies.Damaged(info.ID)
	}
	if err != nil {
		return nil, err
	}
	s, err := r.openSnapshot(sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name.Path(), err)
	}
	if keep {
		r.copies.Put(info.ID, sealed)
	}
	return s, nil
}

// openSnapshot decodes the file of a snapshot.
func (r *Repository) openSnapshot(sealed []byte) (*snapshot.Snapshot, error) {
	plain, err := r.keys.OpenObject(seal.SnapshotObject, sealed)
	if err != nil {
		return nil, err
	}
	return snapshot.Decode(plain)
}

// FromFuture reports whether a snapshot is dated more than a day after now and after its storage: the clock that dated
// it was wrong. Both have to say so, since the clock of this machine or of the target may be wrong as well.
func (l *Listed) FromFuture(now time.Time) bool {
	const inexact = 24 * time.Hour
	if l.Snapshot == nil || l.Stored.IsZero() {
		return false
	}
	dated := time.Unix(l.Snapshot.Time.Sec, 0)
	return dated.Sub(now) > inexact && dated.Sub(l.Stored) > inexact
}

// ByTime returns a function that orders by time. Of two with one time that is the newer which was made of another, by a
// rewrite for example; then the ID decides, so that the order is deterministic. Unreadable ones are last. A snapshot
// from the future has the time of its storage, so that it is not the latest for ever.
func ByTime(now time.Time) func(a, b Listed) int {
	at := func(l *Listed) tree.Time {
		if l.FromFuture(now) {
			return tree.TimeOf(l.Stored)
		}
		return l.Snapshot.Time
	}
	return func(a, b Listed) int {
		if a.Snapshot == nil || b.Snapshot == nil {
			if d := boolRank(a.Snapshot == nil) - boolRank(b.Snapshot == nil); d != 0 {
				return d
			}
			return a.ID.Compare(b.ID)
		}
		made := boolRank(!a.Snapshot.Original.IsZero()) - boolRank(!b.Snapshot.Original.IsZero())
		return cmp.Or(at(&a).Compare(at(&b)), made, a.ID.Compare(b.ID))
	}
}

// Superseded reports whether whole snapshots that follow a partial one have each source that it holds files of, without
// a failure and with at least as many files, unless the user accepted fewer. A backup compares the same path with the
// partial snapshot, and not what lies below its sources.
func Superseded(partial *snapshot.Snapshot, among []Listed) bool {
	if len(partial.Held) == 0 || slices.Contains(partial.Tags, Protected) {
		return false
	}
	for i, source := range partial.Sources {
		if partial.Held[i].Files > 0 && !slices.ContainsFunc(among, func(l Listed) bool {
			h, ok := Follows(partial, l.Snapshot, source)
			return ok && h.Failed == 0 && (h.Accepted != 0 || h.Files >= partial.Held[i].Files)
		}) {
			return false
		}
	}
	return true
}

// Follows returns what a snapshot holds of a source. ok: it holds it whole, and is of the run of a partial one or of a
// later run.
func Follows(partial, s *snapshot.Snapshot, source string) (h snapshot.Held, ok bool) {
	if s == nil || s.Partial || s.Host != partial.Host {
		return h, false
	}
	h, ok = s.HeldOf(source)
	return h, ok && !h.Doubted() && (s.Start == partial.Start || s.Start.Compare(partial.End) >= 0)
}
