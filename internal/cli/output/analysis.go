package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// About is what an Analysis counts.
type About string

// What it counts.
const (
	Added     About = "added"  // Of needs, and Besides does not
	Needed    About = "needed" // Of needs
	OnlyOld   About = "old"    // only Of needs, of all but the newest of each host and set of paths
	OnlyNamed About = "unique" // only Of needs, of all
)

// Analysis is the result of analyze.
type Analysis struct {
	*prune.Analysis
	About       About
	Of, Besides []Snapshot
	Rules       *rules.Set    // of --exclude; nil: none
	Plan        *prune.Result // of OnlyNamed: of a prune without Of
}

// Text writes the sum, and the files and folders that have most of it.
func (s *Analysis) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", human.Size(s.Stored), s.lead())
	if len(s.Rows) > 0 {
		b.WriteString("\n")
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
		if err := s.table(w); err != nil {
			return err
		}
		b.Reset()
	}
	if s.Plan != nil {
		fmt.Fprintf(&b, "\nforget and prune would free %s of %s,\nand leave %s unused in packs that are mostly needed\n",
			human.Size(uint64(max(0, s.Plan.Freed))), human.Size(s.Plan.Before.Bytes), human.Size(s.Plan.Unused))
	}
	b.WriteString("\nSizes are as stored. A folder does not include what has a line of its own.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Analysis) table(w io.Writer) error {
	shares := make([]float64, len(s.Rows))
	for i := range s.Rows {
		shares[i] = float64(s.Rows[i].Bytes)
	}
	t := table{head: []string{"Size>", "Share>", "File or folder~"}}
	for i, share := range human.Percentages(shares) {
		t.add(human.Size(s.Rows[i].Bytes), share+" %", human.Printable(s.Rows[i].Path))
	}
	return t.write(w)
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
func named(list []Snapshot) string {
	if len(list) == 1 {
		sn := list[0].Snapshot
		return fmt.Sprintf("snapshot %s of %s", list[0].ID.Short(), time.Unix(sn.Time.Sec, 0).Format(time.DateTime))
	}
	return human.Plural(uint64(len(list)), "snapshot")
}

// Events returns the record.
func (s *Analysis) Events() []any {
	e := &event.Analysis{Type: "analysis", About: string(s.About), Blobs: s.Blobs, Uncompressed: s.Raw, Stored: s.Stored,
		Of: ids(s.Of), Besides: ids(s.Besides), Excluded: s.Rules != nil, Rows: []event.AnalysisRow{}}
	if s.Plan != nil {
		e.Freed, e.Unused = &s.Plan.Freed, &s.Plan.Unused
	}
	for _, row := range s.Rows {
		e.Rows = append(e.Rows, event.AnalysisRow{Path: event.NewPath(row.Path), Stored: row.Bytes})
	}
	return []any{e}
}

func ids(list []Snapshot) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].ID.String()
	}
	return out
}
