package output

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Problem is one thing that a check found: what is damaged, who needs it and what to do.
func Problem(p *check.Problem) Record {
	return &result{func(w *show.Page) { writeProblem(w, p) }, []any{newFinding(p)}}
}

func writeProblem(w *show.Page, p *check.Problem) {
	fmt.Fprintf(w, "%s: %v\n", p.Object, p.Err)
	if len(p.Snapshots) > 0 {
		noun := "snapshot"
		if len(p.Snapshots) > 1 {
			noun += "s"
		}
		fmt.Fprintf(w, "  needed by %s %s\n", noun, strings.Join(p.Snapshots, ", "))
	}
	for _, path := range p.Paths {
		fmt.Fprintf(w, "  lost: %s\n", human.Printable(path))
	}
	if p.More > 0 {
		fmt.Fprintf(w, "  and %s\n", human.Plural(p.More, "more path"))
	}
	if p.Advice != "" {
		fmt.Fprintf(w, "  %s\n", p.Advice)
	}
}

// Finding is the event of a problem: an error event with more fields.
type Finding struct {
	event.Error
	Kind      check.Kind   `json:"kind"`
	Object    string       `json:"object"`
	Snapshots []string     `json:"snapshots"`
	Paths     []event.Path `json:"paths"`
	More      uint64       `json:"more_paths"`
	Advice    string       `json:"advice"`
}

func newFinding(p *check.Problem) *Finding {
	issue := report.Issue{Op: "check " + string(p.Kind), Err: p.Err}
	if len(p.Paths) > 0 {
		issue.Path = p.Paths[0]
	}
	f := &Finding{Error: *event.NewError(report.Check, issue), Kind: p.Kind, Object: p.Object, Snapshots: []string{},
		Paths: []event.Path{}, More: p.More, Advice: p.Advice}
	f.Snapshots = append(f.Snapshots, p.Snapshots...)
	for _, path := range p.Paths {
		f.Paths = append(f.Paths, event.NewPath(path))
	}
	return f
}

// Check is the end of a check.
type Check struct {
	Ledger      *report.Ledger `json:"-"`
	Result      *check.Result  `json:"-"`
	Halfway     bool           `json:"-"`                          // it failed or was interrupted
	NumErrors   uint64         `json:"num_errors"`                 // problems, each an `error`
	BrokenPacks []string       `json:"broken_packs"`               // list
	RepairIndex bool           `json:"suggest_repair_index"`       // true if that would help
	Unproven    *uint64        `json:"packs_unverified,omitempty"` // packs never read back by a check on this machine
	Since       time.Time      `json:"verified_since,omitzero"`    // all others were, at this time or later
	event.Ending
}

func (c *Check) problems() uint64 { return uint64(len(c.Result.Problems)) + c.Result.More }

// Text writes the verdict and the report. An incomplete check has no verdict.
func (c *Check) Text(w *show.Page) {
	t := c.Ledger.Snapshot()
	t.Failures = c.problems()
	s := show.Short{Lead: c.verdict()}
	known := c.Result.Proven
	known.Damage.Problems = c.problems()
	if proven := provenText(&known); proven != "" && !c.Halfway {
		s.Facts = []string{proven}
	}
	if !w.Full {
		show.WriteShort(w, c.Ledger, &t, s)
		return
	}
	writeSession(w, &t)
	fmt.Fprintf(w, "\n%s\n", strings.Join(append([]string{s.Lead}, s.Facts...), "\n"))
}

func (c *Check) verdict() string {
	r := c.Result
	if c.Halfway {
		return fmt.Sprintf("the check is incomplete: the rest may be damaged; %s found so far",
			human.Plural(c.problems(), "problem"))
	}
	looked := fmt.Sprintf("checked %s, %s", human.Plural(r.Snapshots, "snapshot"), human.Plural(r.Packs, "pack"))
	if r.PacksRead > 0 {
		looked += fmt.Sprintf(", read back %s of data", human.Size(r.BytesRead))
	}
	if r.OK() {
		return looked + ": no errors were found"
	}
	return looked + ": " + human.Plural(c.problems(), "problem") + " found"
}

// Events returns the summary, if the check came to its end: without an error in it, it says that all is well.
func (c *Check) Events() []any {
	if c.Halfway {
		return nil
	}
	t := c.Ledger.Snapshot()
	c.NumErrors, c.BrokenPacks, c.Ending = c.problems(), []string{}, event.NewEnding(&t)
	for _, p := range c.Result.Problems {
		switch p.Kind {
		case check.Pack:
			_, id, _ := strings.Cut(p.Object, " ")
			c.BrokenPacks = append(c.BrokenPacks, id)
		case check.Index:
			c.RepairIndex = true
		}
	}
	if p := &c.Result.Proven; !p.Checked.IsZero() {
		c.Unproven, c.Since = &p.Unproven, p.Since
	}
	return []any{event.Of("summary", c)}
}

func day(t time.Time) string { return t.Local().Format(time.DateTime) }

// provenText is a sentence about what was read back; "" if no check has read data.
func provenText(s *proofs.Summary) string {
	switch {
	case s.Checked.IsZero() || s.Packs == 0:
		return ""
	case s.Unproven == s.Packs:
		return fmt.Sprintf("none of %s packs was ever read back", human.Count(s.Packs))
	case s.Unproven > 0:
		what := "never read back"
		if s.Damage.Problems > 0 {
			what = "damaged, or never read back"
		}
		return fmt.Sprintf("of %s packs, %s: %s; the others were intact at %s or later", human.Count(s.Packs), what,
			human.Count(s.Unproven), day(s.Since))
	}
	return fmt.Sprintf("every pack (%s) was read back and intact at %s or later", human.Count(s.Packs), day(s.Since))
}

// damageText is a sentence about the problems that the last check or a restore found.
func damageText(d *proofs.Damage) string {
	return fmt.Sprintf("damaged: %s found %s; 'tidemark check' shows what still stands",
		human.Plural(d.Problems, "problem"), day(d.At))
}

// drillText is a sentence about the last restore drill; "" if there was none.
func drillText(d *proofs.Drill) string {
	if d.At.IsZero() {
		return ""
	}
	return fmt.Sprintf("restored %s on %s as a sample, %s compared with the unchanged original: %s",
		human.Plural(d.Files, "file"), day(d.At), human.Count(d.Live), drillVerdict(d.Failed))
}

func drillVerdict(failed uint64) string {
	if failed > 0 {
		return human.Count(failed) + " WRONG"
	}
	return "all correct"
}

// Proven is what checks on this machine have proven of a repository: up to three lines, and a record if that is
// anything.
func Proven(p *proofs.Summary) Record {
	return &result{func(w *show.Page) {
		if p.Damage.Problems > 0 {
			fmt.Fprintln(w, damageText(&p.Damage))
		}
		if text := provenText(p); text != "" {
			fmt.Fprintf(w, "last check: %s (as of the check of %s)\n", text, day(p.Checked))
		}
		if text := drillText(&p.Drill); text != "" {
			fmt.Fprintf(w, "last sample: %s\n", text)
		}
	}, provenEvents(p)}
}

func provenEvents(p *proofs.Summary) []any {
	if p.Checked.IsZero() && p.Drill.At.IsZero() && p.Damage.Problems == 0 {
		return nil
	}
	return []any{event.Of("last_verified", p)}
}

// Drilled is the end of a restore drill, in a sentence.
func Drilled(d *drill.Result) Record {
	return one("drill", d, func(w *show.Page) {
		w.Linef("restore sample: %s (%s) of %s restored and compared with their "+
			"hashes; %s of them also compared with the unchanged file on this machine: %s (seed %d)",
			human.Plural(d.Files, "file"), human.Size(d.Bytes), human.Plural(uint64(d.Snapshots), "snapshot"),
			human.Count(d.Live), drillVerdict(d.Failed), d.Seed)
		if d.PassedOver > 0 {
			fmt.Fprintf(w, "skipped for lack of space: %s; set TMPDIR to another folder\n",
				human.Plural(d.PassedOver, "file"))
		}
	})
}
