package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Loss is an object of a snapshot that is lost.
type Loss struct{ repair.Loss }

// Text writes one line.
func (l *Loss) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "lost: %s %s\n", l.Snapshot.Short(), human.Printable(l.Path))
	return err
}

// Events returns the event.
func (l *Loss) Events() []any {
	return []any{&event.Lost{Type: "lost", Snapshot: l.Snapshot.String(), Path: event.NewPath(l.Path)}}
}

// RepairedIndex is what a repair of the index did.
type RepairedIndex struct {
	Result *repair.IndexResult
	DryRun bool
}

// Text writes what was found and done.
func (i *RepairedIndex) Text(w io.Writer) error {
	r := i.Result
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
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns the summary.
func (i *RepairedIndex) Events() []any {
	r := i.Result
	return []any{&event.RepairIndexSummary{
		Type: "summary", DryRun: i.DryRun, Packs: r.Packs, Segments: r.Segments, Damaged: r.Damaged, Written: r.Written,
		Unnamed: r.Unnamed, Wrong: r.Wrong, Walked: r.Walked, DamagedPacks: idTexts(r.Lost), MissingPacks: idTexts(r.Absent),
	}}
}

func idTexts(ids []format.ID) []string {
	texts := []string{}
	for _, id := range ids {
		texts = append(texts, id.String())
	}
	return texts
}

// RepairedPacks is what a repair of packs did.
type RepairedPacks struct {
	Result *repair.PacksResult
	DryRun bool
}

// Text writes a line for each pack, and the sum.
func (p *RepairedPacks) Text(w io.Writer) error {
	var b strings.Builder
	for _, s := range p.Result.Packs {
		switch {
		case s.Missing:
			fmt.Fprintf(&b, "pack %s: missing or unreadable\n", s.ID.Short())
		default:
			fmt.Fprintf(&b, "pack %s: %d of %s can be read; %s: %s\n", s.ID.Short(), s.Frames-s.Bad,
				human.Plural(s.Frames, "frame"), would(p.DryRun, "stored again"), human.Plural(s.Saved, "blob"))
		}
	}
	switch {
	case len(p.Result.Packs) == 0:
		b.WriteString("no packs are marked as damaged; 'tidemark check --read-data' finds those that are\n")
	case p.Result.Losses.Count() == 0:
		b.WriteString("no snapshot lost data\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns the summary.
func (p *RepairedPacks) Events() []any {
	s := &event.RepairPacksSummary{Type: "summary", DryRun: p.DryRun, Packs: []event.SalvagedPack{},
		Lost: p.Result.Losses.Count()}
	for _, one := range p.Result.Packs {
		s.Packs = append(s.Packs, event.SalvagedPack{ID: one.ID.String(), Missing: one.Missing, Frames: one.Frames,
			Bad: one.Bad, Saved: one.Saved})
	}
	return []any{s}
}

// RepairedSnapshots is what a repair of snapshots did.
type RepairedSnapshots struct {
	Result *repair.SnapshotsResult
	DryRun bool
}

// Text writes a line for each snapshot that lost something, and the sum.
func (r *RepairedSnapshots) Text(w io.Writer) error {
	var b strings.Builder
	if more := r.Result.Losses.More; more > 0 {
		fmt.Fprintf(&b, "lost: %s\n", human.Plural(more, "more object"))
	}
	for _, s := range r.Result.Replaced {
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
	fmt.Fprintf(&b, "examined %s; lost data: %d\n", human.Plural(r.Result.Snapshots, "snapshot"),
		len(r.Result.Replaced))
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns the summary.
func (r *RepairedSnapshots) Events() []any {
	s := &event.RepairSnapshotsSummary{Type: "summary", DryRun: r.DryRun, Snapshots: r.Result.Snapshots,
		Replaced: []event.ReplacedSnapshot{}, Lost: r.Result.Losses.Count()}
	for _, one := range r.Result.Replaced {
		replaced := event.ReplacedSnapshot{ID: one.Old.String(), Dropped: one.Dropped, Kept: one.Kept}
		if !one.New.IsZero() {
			replaced.By = one.New.String()
		}
		s.Replaced = append(s.Replaced, replaced)
	}
	return []any{s}
}
