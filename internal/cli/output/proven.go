package output

import (
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Proven is what checks on this machine have proven of a repository.
type Proven struct{ proofs.Summary }

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

// Text writes up to three lines.
func (p *Proven) Text(w *show.Page) {
	if p.Damage.Problems > 0 {
		fmt.Fprintln(w, damageText(&p.Damage))
	}
	if text := provenText(&p.Summary); text != "" {
		fmt.Fprintf(w, "last check: %s (as of the check of %s)\n", text, day(p.Checked))
	}
	if text := drillText(&p.Drill); text != "" {
		fmt.Fprintf(w, "last sample: %s\n", text)
	}
}

// Events returns a record if anything was proven.
func (p *Proven) Events() []any {
	if p.Checked.IsZero() && p.Drill.At.IsZero() && p.Damage.Problems == 0 {
		return nil
	}
	return []any{event.Of("last_verified", p)}
}

// Drilled is the end of a restore drill.
type Drilled struct {
	Snapshots int `json:"snapshots"` // sampled
	*drill.Result
	Seed uint64 `json:"seed"` // for `--restore-sample-seed`
}

// Text writes a sentence.
func (d *Drilled) Text(w *show.Page) {
	w.Linef("restore sample: %s (%s) of %s restored and compared with their "+
		"hashes; %s of them also compared with the unchanged file on this machine: %s (seed %d)",
		human.Plural(d.Files, "file"), human.Size(d.Bytes), human.Plural(uint64(d.Snapshots), "snapshot"),
		human.Count(d.Live), drillVerdict(d.Failed), d.Seed)
	if d.PassedOver > 0 {
		fmt.Fprintf(w, "skipped for lack of space: %s; set TMPDIR to another folder\n",
			human.Plural(d.PassedOver, "file"))
	}
}

// Events returns the record.
func (d *Drilled) Events() []any { return []any{event.Of("drill", d)} }
