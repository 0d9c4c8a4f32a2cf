package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Pruned is what a prune did.
type Pruned struct {
	Ledger *report.Ledger `json:"-"`
	Result *prune.Result  `json:"-"`
	Allows string         `json:"-"` // what --max-unused allows
	DryRun bool           `json:"dry_run,omitempty"`
	prune.Counts
	PacksBefore   uint64   `json:"packs_before"` // at the start
	BytesBefore   uint64   `json:"bytes_before"`
	PacksRemoved  uint64   `json:"packs_removed"` // of these
	BytesRemoved  uint64   `json:"bytes_removed"`
	PacksKept     uint64   `json:"packs_kept"` // of these
	BytesKept     uint64   `json:"bytes_kept"`
	PacksWritten  uint64   `json:"packs_written"` // repacked
	BytesWritten  uint64   `json:"bytes_written"`
	PacksAfter    uint64   `json:"packs_after"` // at the end
	BytesAfter    uint64   `json:"bytes_after"`
	PacksMarked   uint64   `json:"packs_marked"` // found unused by this run
	BytesMarked   uint64   `json:"bytes_marked"`
	PacksRepacked uint64   `json:"packs_repacked"` // partly used packs of these
	BytesRepacked uint64   `json:"bytes_repacked"`
	PacksPending  uint64   `json:"packs_pending"` // marked, not removed yet
	BytesPending  uint64   `json:"bytes_pending"`
	Pending       bool     `json:"pending"`     // true if a later prune has to remove packs
	Waiting       []string `json:"waiting_for"` // list of writing hosts
	event.Ending
}

// Text writes what was found and done, and what is left for later.
func (p *Pruned) Text(w *show.Page) {
	t := p.Ledger.Snapshot()
	if !w.Full {
		show.WriteShort(w, p.Ledger, &t, show.Short{Lead: p.lead(), Figures: []string{p.packs()}, Facts: p.facts()})
		return
	}
	p.writeSums(w, &t)
	for _, line := range p.waiting() {
		fmt.Fprintln(w, line)
	}
	if p.nothing() {
		fmt.Fprintln(w, "nothing to remove")
	}
	writeSession(w, &t)
}

func (p *Pruned) verb(done, planned string) string {
	if p.DryRun {
		return planned
	}
	return done
}

func (p *Pruned) nothing() bool {
	r := p.Result
	return r.Deleted.Packs == 0 && r.Marked.Packs == 0 && r.Pending.Packs == 0
}

// lead is the first line of a short report.
func (p *Pruned) lead() string {
	if p.nothing() {
		return "nothing to remove"
	}
	return p.verb("removed ", "would remove ") + amount(p.Result.Deleted)
}

// packs compares the repository before and after.
func (p *Pruned) packs() string {
	r := p.Result
	if p.DryRun { // the number of packs that repacking writes is unknown
		return fmt.Sprintf("packs:  %s before; %s afterwards", counted(r.Before), human.Size(r.After().Bytes))
	}
	return fmt.Sprintf("packs:  %s before; %s now", counted(r.Before), counted(r.After()))
}

// facts are the further lines of a short report.
func (p *Pruned) facts() []string {
	r := p.Result
	var facts []string
	if r.Repacked.Packs > 0 {
		facts = append(facts, fmt.Sprintf("%s: %s, %s of it in use", p.verb("repacked", "would be repacked"),
			amount(r.Repacked), human.Size(r.Rewritten)))
	}
	if r.Pending.Packs > 0 {
		facts = append(facts, p.verb("marked for removal: ", "would be marked for removal: ")+amount(r.Pending))
	}
	if r.Unused > 0 {
		facts = append(facts, fmt.Sprintf("%s %s unused, in packs that are partly needed (--max-unused %s)",
			p.verb("kept:", "would be kept:"), human.Size(r.Unused), p.Allows))
	}
	if r.Extended > 0 {
		facts = append(facts, fmt.Sprintf("locks extended: %s, one request for each", p.extended()))
	}
	return append(facts, p.waiting()...)
}

// writeSums writes a sum that can be checked.
func (p *Pruned) writeSums(w *show.Page, t *report.Totals) {
	r := p.Result
	fmt.Fprintf(w, "traversed %s in %s\n\n", human.Plural(r.Snapshots, "snapshot"), human.Clocked(t.Elapsed))
	writeBalance(w, []balance{
		{name: "before", Amount: r.Before},
		{name: p.verb("removed", "would be removed"), sign: "-", Amount: r.Deleted},
		{name: p.verb("kept", "would be kept"), sign: "=", Amount: r.Kept()},
		{name: p.verb("repacked", "would be repacked"), sign: "+", Amount: r.Written, unknown: p.DryRun},
		{name: p.verb("after", "would be after"), sign: "=", Amount: r.After(), unknown: p.DryRun},
	})
	fmt.Fprintln(w)
	line := func(name, text string) { fmt.Fprintf(w, "%-19s %s\n", name+":", text) }
	line("unused", amount(r.Marked))
	if r.Repacked.Packs > 0 {
		line("of these, partly", amount(r.Repacked)+", "+human.Size(r.Rewritten)+" in use")
	}
	if !p.DryRun {
		line(change("index ", r.Index))
	}
	line(change(p.verb("", "would be "), r.Freed))
	if r.Revived > 0 {
		line("in use again", human.Plural(r.Revived, "pack"))
	}
	if r.Pending.Packs > 0 {
		line("to be removed", amount(r.Pending))
	}
	line("unused and kept", human.Size(r.Unused))
	if r.Extended > 0 {
		line("locks extended", p.extended()+", one request for each")
	}
}

// extended says how many locks are extended. A dry run counts files that the prune would remove.
func (p *Pruned) extended() string {
	return p.verb("", "at most ") + human.Plural(p.Result.Extended, "file")
}

// waiting says what is left for a later prune, and why.
func (p *Pruned) waiting() []string {
	r := p.Result
	var lines []string
	for _, o := range r.Waiting {
		who := "an unknown writer"
		if o.Lease.Host != "" {
			who = fmt.Sprintf("process %d on %s", o.Lease.PID, human.Printable(o.Lease.Host))
		}
		quiet := human.Span(max(0, o.SinceRenewal))
		if o.Ended {
			lines = append(lines, fmt.Sprintf("%s lost its connection %s ago, and its last writes may still arrive: %s", who,
				quiet, later(p.DryRun, "45 minutes after that")))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s is writing, or lost its connection %s ago: %s", who, quiet,
			later(p.DryRun, "when it has ended, or after 45 minutes of silence")))
	}
	return lines
}

func amount(a prune.Amount) string { return human.Plural(a.Packs, "pack") + ", " + human.Size(a.Bytes) }

// counted is an amount in a line that names the unit.
func counted(a prune.Amount) string { return human.Count(a.Packs) + " (" + human.Size(a.Bytes) + ")" }

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
func writeBalance(w *show.Page, rows []balance) {
	var name, packs, size int
	for _, r := range rows {
		name, packs, size = max(name, len(r.name)), max(packs, len(human.Count(r.Packs))), max(size,
			len(human.Count(r.Bytes)))
	}
	for _, r := range rows {
		count := human.Count(r.Packs) + " packs"
		if r.unknown {
			count = ""
		}
		fmt.Fprintf(w, "%-*s %1s %*s %*s bytes  %s\n", name+1, r.name+":", r.sign, packs+len(" packs"), count, size,
			human.Count(r.Bytes), human.Size(r.Bytes))
	}
}

// later says when marked data is removed.
func later(dry bool, when string) string {
	if dry {
		return "a prune marks the data now, and a later one removes it " + when
	}
	return "run 'tidemark prune' again " + when + " to remove the marked data"
}

// Events returns the summary.
func (p *Pruned) Events() []any {
	r, t := p.Result, p.Ledger.Snapshot()
	p.Counts, p.Ending = r.Counts, event.NewEnding(&t)
	p.PacksBefore, p.BytesBefore = r.Before.Packs, r.Before.Bytes
	p.PacksRemoved, p.BytesRemoved = r.Deleted.Packs, r.Deleted.Bytes
	p.PacksKept, p.BytesKept = r.Kept().Packs, r.Kept().Bytes
	p.PacksWritten, p.BytesWritten = r.Written.Packs, r.Written.Bytes
	p.PacksAfter, p.BytesAfter = r.After().Packs, r.After().Bytes
	p.PacksMarked, p.BytesMarked = r.Marked.Packs, r.Marked.Bytes
	p.PacksRepacked, p.BytesRepacked = r.Repacked.Packs, r.Repacked.Bytes
	p.PacksPending, p.BytesPending = r.Pending.Packs, r.Pending.Bytes
	p.Pending, p.Waiting = len(r.Waiting) > 0, []string{}
	for _, o := range r.Waiting {
		p.Waiting = append(p.Waiting, o.Lease.Host)
	}
	return []any{event.Of("summary", p)}
}
