package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Loss is an object of a snapshot that is lost.
type Loss struct{ repair.Loss }

// Text writes one line.
func (l *Loss) Text(w *show.Page) {
	fmt.Fprintf(w, "lost: %s %s\n", l.Snapshot.Short(), human.Printable(l.Exact()))
}

// Events returns the event.
func (l *Loss) Events() []any { return []any{event.Of("lost", l)} }

// RepairedIndex is what a repair of the index did.
type RepairedIndex struct {
	DryRun bool `json:"dry_run,omitempty"`
	*repair.IndexResult
}

// Text writes what was found and done.
func (i *RepairedIndex) Text(w *show.Page) {
	r := i.IndexResult
	var b strings.Builder
	fmt.Fprintf(&b, "examined %s and %s\n", human.Plural(r.Packs, "pack"), human.Plural(r.Segments, "index file"))
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
			fmt.Fprintf(&b, "%s: %d\n", line.text, line.n)
		}
	}
	switch {
	case r.OK() && len(r.Absent) > 0:
		b.WriteString("the index agrees with the packs that are there\n")
	case r.OK():
		b.WriteString("the index agrees with the packs\n")
	case i.DryRun:
		b.WriteString("the index would be repaired\n")
	default:
		fmt.Fprintf(&b, "written: %s\n", human.Plural(r.Written, "index file"))
	}
	w.WriteString(w.Prose(b.String()))
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
	var b strings.Builder
	for _, s := range p.Packs {
		switch {
		case s.Missing:
			fmt.Fprintf(&b, "pack %s: missing or unreadable\n", s.ID.Short())
		default:
			fmt.Fprintf(&b, "pack %s: %d of %s can be read; %s: %s\n", s.ID.Short(), s.Frames-s.Bad,
				human.Plural(s.Frames, "frame"), would(p.DryRun, "stored again"), human.Plural(s.Saved, "blob"))
		}
	}
	switch {
	case len(p.Packs) == 0:
		b.WriteString("no packs are marked as damaged; 'tidemark check --read-data' finds those that are\n")
	case p.Losses.Count() == 0:
		b.WriteString("no snapshot lost data\n")
	}
	w.WriteString(w.Prose(b.String()))
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
	var b strings.Builder
	if more := r.Losses.More; more > 0 {
		fmt.Fprintf(&b, "lost: %s\n", human.Plural(more, "more object"))
	}
	for _, s := range r.Replaced {
		switch {
		case s.Kept:
			fmt.Fprintf(&b, "snapshot %s: unreadable; it stays\n", s.Old.Short())
		case s.Dropped:
			fmt.Fprintf(&b, "snapshot %s: unreadable; %s\n", s.Old.Short(), would(r.DryRun, "removed"))
		case r.DryRun:
			fmt.Fprintf(&b, "snapshot %s: would be replaced\n", s.Old.Short())
		default:
			fmt.Fprintf(&b, "snapshot %s: replaced by %s\n", s.Old.Short(), s.New.Short())
		}
	}
	fmt.Fprintf(&b, "examined %s; lost data: %d\n", human.Plural(r.Snapshots, "snapshot"), len(r.Replaced))
	if r.DryRun && len(r.Replaced) > 0 {
		b.WriteString("run 'tidemark backup' of every source first: data that it stores again is not lost\n")
	}
	w.WriteString(w.Prose(b.String()))
}

// Events returns the summary.
func (r *RepairedSnapshots) Events() []any {
	r.Lost, r.Replaced = r.Losses.Count(), list(r.Replaced)
	return []any{event.Of("summary", r)}
}
