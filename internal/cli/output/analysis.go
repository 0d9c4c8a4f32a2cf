package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// What an Analysis is about.
const (
	Added     = "added"  // Of needs, and Besides does not
	Needed    = "needed" // Of needs
	OnlyOld   = "old"    // only Of needs, of all but the newest of each host and set of paths
	OnlyNamed = "unique" // only Of needs, of all
)

// Analysis is the result of analyze.
type Analysis struct {
	*prune.Analysis
	About       string
	Of, Besides []repo.Listed
	Rules       *rules.Set    // of --exclude; nil: none
	Plan        *prune.Result // of OnlyNamed: of a prune without Of
}

// Text writes the sum, and the files and folders that have most of it.
func (s *Analysis) Text(w *show.Page) {
	fmt.Fprintf(w, "%s %s\n", human.Size(s.Stored), s.lead())
	if len(s.Rows) > 0 {
		w.WriteString("\n")
		s.table(w)
	}
	if s.Plan != nil {
		fmt.Fprintf(w, "\nforget and prune would free %s of %s,\nand leave %s unused in packs that are mostly needed\n",
			human.Size(uint64(max(0, s.Plan.Freed))), human.Size(s.Plan.Before.Bytes), human.Size(s.Plan.Unused))
	}
	w.WriteString("\nSizes are as stored. A folder does not include what has a line of its own.\n")
}

func (s *Analysis) table(w *show.Page) {
	shares := make([]float64, len(s.Rows))
	for i := range s.Rows {
		shares[i] = float64(s.Rows[i].Bytes)
	}
	t := table{head: []string{"Size>", "Share>", "File or folder~"}}
	for i, share := range human.Percentages(shares) {
		t.add(human.Size(s.Rows[i].Bytes), share+" %", human.Printable(s.Rows[i].Path))
	}
	t.write(w)
}

// lead says what the sum is.
func (s *Analysis) lead() string {
	of := named(s.Of)
	switch {
	case s.Rules != nil:
		return "needed by nothing but what --exclude matches,\nof " + of
	case s.About == Added && len(s.Besides) > 0:
		return "added by " + of + "\ncompared with " + named(s.Besides)
	case s.About == OnlyOld:
		return "needed by no newest snapshot of a host and set of paths,\nonly by " + of
	case s.About == OnlyNamed:
		return "needed only by " + of
	case s.About == Added:
		return "added by " + of + ",\nthe first of its paths"
	}
	return "needed by " + of
}

// named names one snapshot, or counts several.
func named(list []repo.Listed) string {
	if len(list) == 1 {
		return fmt.Sprintf("snapshot %s of %s", list[0].ID.Short(), stamp(list[0].Snapshot.Time))
	}
	return human.Plural(uint64(len(list)), "snapshot")
}

// Events returns the record.
func (s *Analysis) Events() []any {
	e := &event.Analysis{About: s.About, Blobs: s.Blobs, Uncompressed: s.Raw, Stored: s.Stored,
		Of: ids(s.Of), Besides: ids(s.Besides), Excluded: s.Rules != nil, Rows: []event.AnalysisRow{}}
	if s.Plan != nil {
		e.Freed, e.Unused = &s.Plan.Freed, &s.Plan.Unused
	}
	for _, row := range s.Rows {
		e.Rows = append(e.Rows, event.AnalysisRow{Path: event.NewPath(row.Path), Stored: row.Bytes})
	}
	return []any{event.Of("analysis", e)}
}

func ids(list []repo.Listed) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].ID.String()
	}
	return out
}
