package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Loss is an object of a snapshot that is lost: one line.
func Loss(l repair.Loss) Record {
	return one("lost", l, func(w *show.Page) {
		fmt.Fprintf(w, "lost: %s %s\n", l.Snapshot.Short(), human.Printable(l.Exact()))
	})
}

// RepairedIndex is what a repair of the index found and did.
func RepairedIndex(r *repair.IndexResult) Record {
	r.Lost, r.Absent = list(r.Lost), list(r.Absent)
	return one("summary", r, func(w *show.Page) {
		w.Linef("examined %s and %s", human.Plural(r.Packs, "pack"), human.Plural(r.Segments, "index file"))
		for _, line := range []struct {
			n    uint64
			text string
		}{
			{r.Damaged, "damaged index files"},
			{r.Unnamed, "packs missing from the index"},
			{r.Wrong, "packs that the index described wrongly"},
			{r.Walked, "packs with a damaged table and readable frames"},
			{uint64(len(r.Lost)), "damaged packs"},
			{uint64(len(r.Absent)), "packs missing or truncated"},
		} {
			if line.n > 0 {
				w.Linef("%s: %d", line.text, line.n)
			}
		}
		switch {
		case r.OK() && len(r.Absent) > 0:
			w.Linef("the index agrees with the packs that are there")
		case r.OK():
			w.Linef("the index agrees with the packs")
		case r.DryRun:
			w.Linef("the index would be repaired")
		default:
			w.Linef("written: %s", human.Plural(r.Written, "index file"))
		}
	})
}

// list is all, and for scripts no null if it is empty.
func list[T any](all []T) []T { return append([]T{}, all...) }

// RepairedPacks is what a repair of packs did: a line for each pack, and the sum.
func RepairedPacks(r *repair.PacksResult) Record {
	r.Lost, r.Packs = r.Losses.Count(), list(r.Packs)
	return one("summary", r, func(w *show.Page) {
		for _, s := range r.Packs {
			if s.Missing {
				w.Linef("pack %s: missing or unreadable", s.ID.Short())
				continue
			}
			w.Linef("pack %s: %d of %s can be read; %s: %s", s.ID.Short(), s.Frames-s.Bad,
				human.Plural(s.Frames, "frame"), would(r.DryRun, "stored again"), human.Plural(s.Saved, "blob"))
		}
		switch {
		case len(r.Packs) == 0:
			w.Linef("no packs are marked as damaged; 'tidemark check --read-data' finds those that are")
		case r.Lost == 0:
			w.Linef("no snapshot lost data")
		}
	})
}

// RepairedSnapshots is what a repair of snapshots did: a line for each one that lost something, and the sum.
func RepairedSnapshots(r *repair.SnapshotsResult) Record {
	r.Lost, r.Replaced = r.Losses.Count(), list(r.Replaced)
	return one("summary", r, func(w *show.Page) {
		if more := r.Losses.More; more > 0 {
			w.Linef("lost: %s", human.Plural(more, "more object"))
		}
		for _, s := range r.Replaced {
			switch {
			case s.Kept:
				w.Linef("snapshot %s: unreadable; it stays", s.Old.Short())
			case s.Dropped:
				w.Linef("snapshot %s: unreadable; %s", s.Old.Short(), would(r.DryRun, "removed"))
			case r.DryRun:
				w.Linef("snapshot %s: would be replaced", s.Old.Short())
			default:
				w.Linef("snapshot %s: replaced by %s", s.Old.Short(), s.New.Short())
			}
		}
		w.Linef("examined %s; lost data: %d", human.Plural(r.Snapshots, "snapshot"), len(r.Replaced))
		if r.DryRun && len(r.Replaced) > 0 {
			w.Linef("run 'tidemark backup' of every source first: data that it stores again is not lost")
		}
	})
}
