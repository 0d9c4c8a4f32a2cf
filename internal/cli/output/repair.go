package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Loss is an object of a snapshot that is lost: one line.
func Loss(l repair.Loss) Record {
	return one("lost", l, func(w *show.Page) {
		fmt.Fprintf(w, "lost: %s %s\n", l.Snapshot.Short(), human.Printable(l.Exact()))
	})
}

// RepairedIndex is what a repair of the index did.
type RepairedIndex struct {
	DryRun bool `json:"dry_run,omitempty"`
	*repair.IndexResult
}

// Text writes what was found and done.
func (i *RepairedIndex) Text(w *show.Page) {
	r := i.IndexResult
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
	case i.DryRun:
		w.Linef("the index would be repaired")
	default:
		w.Linef("written: %s", human.Plural(r.Written, "index file"))
	}
}

// Events returns the summary.
func (i *RepairedIndex) Events() []any {
	i.IndexResult.Lost, i.Absent = list(i.IndexResult.Lost), list(i.Absent)
	return []any{event.Of("summary", i)}
}

// list is all, and for scripts no null if it is empty.
func list[T any](all []T) []T { return append([]T{}, all...) }

// RepairedPacks is what a repair of packs did.
type RepairedPacks struct {
	DryRun bool `json:"dry_run,omitempty"`
	*repair.PacksResult
	Lost uint64 `json:"objects_lost"` // files and folders that lost data
}

// Text writes a line for each pack, and the sum.
func (p *RepairedPacks) Text(w *show.Page) {
	for _, s := range p.Packs {
		switch {
		case s.Missing:
			w.Linef("pack %s: missing or unreadable", s.ID.Short())
		default:
			w.Linef("pack %s: %d of %s can be read; %s: %s", s.ID.Short(), s.Frames-s.Bad,
				human.Plural(s.Frames, "frame"), would(p.DryRun, "stored again"), human.Plural(s.Saved, "blob"))
		}
	}
	switch {
	case len(p.Packs) == 0:
		w.Linef("no packs are marked as damaged; 'tidemark check --read-data' finds those that are")
	case p.Losses.Count() == 0:
		w.Linef("no snapshot lost data")
	}
}

// Events returns the summary.
func (p *RepairedPacks) Events() []any {
	p.Lost, p.Packs = p.Losses.Count(), list(p.Packs)
	return []any{event.Of("summary", p)}
}

// RepairedSnapshots is what a repair of snapshots did.
type RepairedSnapshots struct {
	DryRun bool `json:"dry_run,omitempty"`
	*repair.SnapshotsResult
	Lost uint64 `json:"objects_lost"` // files and folders that lost data
}

// Text writes a line for each snapshot that lost something, and the sum.
func (r *RepairedSnapshots) Text(w *show.Page) {
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
}

// Events returns the summary.
func (r *RepairedSnapshots) Events() []any {
	r.Lost, r.Replaced = r.Losses.Count(), list(r.Replaced)
	return []any{event.Of("summary", r)}
}
