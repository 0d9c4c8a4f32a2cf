package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Pruned is what a prune did.
type Pruned struct {
	Ledger  *report.Ledger
	Result  *prune.Result
	DryRun  bool
	Verbose bool // tell also where the time went
}

// Text writes what was found, done, and left for later: a sum, line by line, so that it can be checked.
func (p *Pruned) Text(w io.Writer) error {
	r, t := p.Result, p.Ledger.Snapshot()
	var b strings.Builder
	verb := func(done, planned string) string {
		if p.DryRun {
			return planned
		}
		return done
	}
	fmt.Fprintf(&b, "followed %s in %s\n\n", human.Plural(r.Snapshots, "snapshot"), human.Clocked(t.Elapsed))
	writeBalance(&b, []balance{
		{name: "was there", Amount: r.Before},
		{name: verb("removed", "would be removed"), sign: "-", Amount: r.Deleted},
		{name: verb("kept", "would be kept"), sign: "=", Amount: r.Kept()},
		{name: verb("written anew", "would be written"), sign: "+", Amount: r.Written, unknown: p.DryRun},
		{name: verb("is there now", "would be there"), sign: "=", Amount: r.After(), unknown: p.DryRun},
	})
	b.WriteByte('\n')
	line := func(name, text string) { fmt.Fprintf(&b, "%-19s %s\n", name+":", text) }
	line("not needed", amount(r.Condemned))
	if r.Repacked.Packs > 0 {
		line("of these in part", amount(r.Repacked)+", with "+human.Size(r.Rewritten)+" needed")
	}
	if !p.DryRun {
		line(change("index ", r.Index))
	}
	name, text := change(verb("", "would be "), r.Freed)
	line(name, text)
	if r.Pardoned > 0 {
		line("needed after all", human.Plural(r.Pardoned, "pack"))
	}
	if r.Pending.Packs > 0 {
		line("waits for removal", amount(r.Pending))
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
	if r.Deleted.Packs == 0 && r.Condemned.Packs == 0 && r.Pending.Packs == 0 {
		b.WriteString("there was nothing to remove\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil || !p.Verbose {
		return err
	}
	return writeSession(w, &t, true)
}

func amount(a prune.Amount) string { return human.Plural(a.Packs, "pack") + ", " + human.Size(a.Bytes) }

func change(what string, n int64) (name, text string) {
	if n < 0 {
		return what + "larger by", human.Size(uint64(-n))
	}
	return what + "smaller by", human.Size(uint64(n))
}

// balance is a line of a sum.
type balance struct {
	name, sign string
	prune.Amount
	unknown bool // how many packs
}

// writeBalance writes exact numbers in columns, and what they are in round ones.
func writeBalance(b *strings.Builder, rows []balance) {
	var name, packs, size int
	for _, r := range rows {
		name, packs, size = max(name, len(r.name)), max(packs, len(human.Count(r.Packs))), max(size, len(human.Count(r.Bytes)))
	}
	for _, r := range rows {
		count := human.Count(r.Packs) + " packs"
		if r.unknown {
			count = ""
		}
		fmt.Fprintf(b, "%-*s %1s %*s %*s bytes  %s\n", name+1, r.name+":", r.sign, packs+len(" packs"), count, size,
			human.Count(r.Bytes), human.Size(r.Bytes))
	}
}

// later says who removes what this prune marks.
func later(dry bool, when string) string {
	if dry {
		return "what a prune marks now is removed by one " + when
	}
	return "run 'tidemark prune' again " + when + ", to remove what is marked"
}

// Events returns the summary.
func (p *Pruned) Events() []any {
	r, t := p.Result, p.Ledger.Snapshot()
	s := &event.PruneSummary{
		Type: "summary", DryRun: p.DryRun, Snapshots: r.Snapshots, PacksBefore: r.Before.Packs, BytesBefore: r.Before.Bytes,
		PacksRemoved: r.Deleted.Packs, BytesRemoved: r.Deleted.Bytes, PacksKept: r.Kept().Packs, BytesKept: r.Kept().Bytes,
		PacksWritten: r.Written.Packs, BytesWritten: r.Written.Bytes, PacksAfter: r.After().Packs, BytesAfter: r.After().Bytes,
		IndexFreed: r.Index, BytesFreed: r.Freed, PacksPending: r.Pending.Packs, BytesPending: r.Pending.Bytes, PacksMarked: r.Condemned.Packs,
		BytesMarked: r.Condemned.Bytes, PacksRepacked: r.Repacked.Packs, BytesRepacked: r.Repacked.Bytes,
		BytesRewritten: r.Rewritten, PacksPardoned: r.Pardoned, PacksHeld: r.Held, PacksDamaged: r.Damaged, BytesUnused: r.Unused,
		SecondsElapsed: uint64(t.Elapsed.Seconds()), Figures: event.NewFigures(&t),
		Pending: len(r.Waiting) > 0 || r.Settling || r.Held > 0, Waiting: []string{},
	}
	for _, o := range r.Waiting {
		s.Waiting = append(s.Waiting, o.Lease.Host)
	}
	return []any{s}
}
