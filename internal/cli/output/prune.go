package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Pruned is what a prune did.
type Pruned struct {
	Result *prune.Result
	DryRun bool
}

func amount(a prune.Amount) string { return human.Plural(a.Packs, "pack") + ", " + human.Size(a.Bytes) }

// Text writes what was found, done, and left for later.
func (p *Pruned) Text(w io.Writer) error {
	r := p.Result
	var b strings.Builder
	line := func(name, text string) { fmt.Fprintf(&b, "%-18s %s\n", name+":", text) }
	line("followed", human.Plural(r.Snapshots, "snapshot"))
	line("was there", amount(r.Before))
	if r.Repacked.Packs > 0 {
		line(would(p.DryRun, "written anew"), fmt.Sprintf("%s of %s", human.Size(r.Rewritten), amount(r.Repacked)))
	}
	if r.Condemned.Packs > 0 || p.DryRun {
		line("not needed", amount(r.Condemned))
	}
	line(would(p.DryRun, "removed"), amount(r.Deleted))
	if r.Freed < 0 {
		line(would(p.DryRun, "larger by"), human.Size(uint64(-r.Freed)))
	} else {
		line(would(p.DryRun, "smaller by"), human.Size(uint64(r.Freed)))
	}
	if r.Pardoned > 0 {
		line("needed after all", human.Plural(r.Pardoned, "pack"))
	}
	if r.Held > 0 {
		line("held back", human.Plural(r.Held, "pack"))
	}
	line("still in vain", human.Size(r.Unused))
	for _, o := range r.Waiting {
		who := "a writer that cannot be told"
		if o.Lease.Host != "" {
			who = fmt.Sprintf("process %d on %s", o.Lease.PID, human.Printable(o.Lease.Host))
		}
		fmt.Fprintf(&b, "%s is writing: %s\n", who, later(p.DryRun, "when it has ended"))
	}
	if r.Held > 0 {
		fmt.Fprintf(&b, "packs were held back for others that hold older copies of what is needed: %s\n",
			later(p.DryRun, "without '--max-unused unlimited'"))
	}
	if r.Settling {
		fmt.Fprintf(&b, "other machines may not see a mark at once: %s\n", later(p.DryRun, "two minutes later"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// later says who removes what this prune marks.
func later(dry bool, when string) string {
	if dry {
		return "what a prune marks now is removed by one " + when
	}
	return "run 'tidemark prune' again " + when + ", to remove what is marked"
}

func would(dry bool, what string) string {
	if dry {
		return "would be " + what
	}
	return what
}

// PruneSummary is the event of a prune.
type PruneSummary struct {
	Type           string   `json:"message_type"` // "summary"
	DryRun         bool     `json:"dry_run,omitempty"`
	Snapshots      uint64   `json:"snapshots"`
	PacksBefore    uint64   `json:"packs_before"`
	BytesBefore    uint64   `json:"bytes_before"`
	PacksRemoved   uint64   `json:"packs_removed"`
	BytesRemoved   uint64   `json:"bytes_removed"`
	BytesFreed     int64    `json:"bytes_freed"`
	PacksMarked    uint64   `json:"packs_marked"`
	BytesMarked    uint64   `json:"bytes_marked"`
	PacksRepacked  uint64   `json:"packs_repacked"`
	BytesRepacked  uint64   `json:"bytes_repacked"`
	BytesRewritten uint64   `json:"bytes_rewritten"`
	PacksPardoned  uint64   `json:"packs_pardoned"`
	PacksHeld      uint64   `json:"packs_held"`
	PacksDamaged   uint64   `json:"packs_damaged"`
	BytesUnused    uint64   `json:"bytes_unused"`
	Pending        bool     `json:"pending"`
	Waiting        []string `json:"waiting_for"`
}

// Events returns the summary.
func (p *Pruned) Events() []any {
	r := p.Result
	s := &PruneSummary{
		Type: "summary", DryRun: p.DryRun, Snapshots: r.Snapshots, PacksBefore: r.Before.Packs, BytesBefore: r.Before.Bytes,
		PacksRemoved: r.Deleted.Packs, BytesRemoved: r.Deleted.Bytes, BytesFreed: r.Freed, PacksMarked: r.Condemned.Packs,
		BytesMarked: r.Condemned.Bytes, PacksRepacked: r.Repacked.Packs, BytesRepacked: r.Repacked.Bytes,
		BytesRewritten: r.Rewritten, PacksPardoned: r.Pardoned, PacksHeld: r.Held, PacksDamaged: r.Damaged, BytesUnused: r.Unused,
		Pending: len(r.Waiting) > 0 || r.Settling || r.Held > 0, Waiting: []string{},
	}
	for _, o := range r.Waiting {
		s.Waiting = append(s.Waiting, o.Lease.Host)
	}
	return []any{s}
}
