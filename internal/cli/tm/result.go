package tm

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// size formats bytes as tmutil does: "512B", "4.0K", "1.2G".
func size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v, unit := float64(n)/1024, 0
	for ; v >= 1023.95 && unit < 5; unit++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f%c", v, "KMGTPE"[unit])
}

// Listed is a line of listbackups and latestbackup.
type Listed struct {
	Backup
	Stamp  bool // the time only
	WithID bool // the ID in front
	Event  any  // the snapshot record
}

// Text writes the path.
func (l *Listed) Text(w io.Writer) error {
	text := human.Printable(l.Path)
	if l.Stamp {
		text = l.Name
	}
	if l.WithID {
		text = l.Backup.ID.Short() + "  " + text
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// Events returns the snapshot record.
func (l *Listed) Events() []any { return []any{l.Event} }

// Difference is one object that differs, as a line of compare.
type Difference struct {
	browse.Change
	Properties Property
}

// Bytes is the size of the file: the new one, of a removed file the old one.
func (d *Difference) Bytes() uint64 {
	if d.New != nil {
		return fileSize(d.New)
	}
	return fileSize(d.Old)
}

func fileSize(n *tree.Node) uint64 {
	if n.Type != tree.File {
		return 0
	}
	return n.Size
}

// sign returns tmutil's character for the kind of difference.
func (d *Difference) sign() string {
	switch {
	case d.Old == nil:
		return "+"
	case d.New == nil:
		return "-"
	}
	return "!"
}

// Text writes kind, size, properties and path.
func (d *Difference) Text(w io.Writer) error {
	what := ""
	if d.Properties != 0 {
		what = " (" + d.Properties.String() + ")"
	}
	_, err := fmt.Fprintf(w, "%s %8s%s  %s\n", d.sign(), size(d.Bytes()), what, human.Printable(d.Path))
	return err
}

// Events returns the difference record.
func (d *Difference) Events() []any {
	return []any{&event.Difference{Type: "difference", Modifier: d.sign(), Path: event.NewPath(d.Path), Bytes: d.Bytes(),
		Properties: d.Properties.Strings()}}
}

// dict returns the difference as a dictionary.
func (d *Difference) dict() Dict {
	kind := map[string]string{"+": "Added", "-": "Removed", "!": "Changed"}[d.sign()]
	out := Dict{{"Path", printableXML(d.Path)}, {"Size", d.Bytes()}, {"Type", kind}}
	if d.Properties != 0 {
		out = append(out, Pair{"Differences", d.Properties.String()})
	}
	return out
}

// printableXML returns a path that XML can hold: unchanged unless it contains control characters or is not UTF-8.
func printableXML(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r >= '\uFFFD' && r <= '\uFFFF' }) {
		return human.Printable(path)
	}
	return path
}

// Count is objects and the bytes of the files among them.
type Count struct{ Objects, Bytes uint64 }

func (c *Count) add(bytes uint64) {
	c.Objects++
	c.Bytes += bytes
}

// Comparison sums up differences.
type Comparison struct {
	From, To                format.ID // of snapshots; zero: this machine
	Added, Removed, Changed Count
	Title                   string // of a step of calculatedrift; "" for none
}

// Add counts a difference.
func (c *Comparison) Add(d *Difference) {
	switch d.sign() {
	case "+":
		c.Added.add(d.Bytes())
	case "-":
		c.Removed.add(d.Bytes())
	default:
		c.Changed.add(d.Bytes())
	}
}

// Text writes the totals.
func (c *Comparison) Text(w io.Writer) error {
	title := ""
	if c.Title != "" {
		title = human.Printable(c.Title) + "\n"
	}
	_, err := fmt.Fprintf(w, "%s%s\nAdded:         %s\nRemoved:       %s\nChanged:       %s\n\n", title,
		strings.Repeat("-", 37), size(c.Added.Bytes), size(c.Removed.Bytes), size(c.Changed.Bytes))
	return err
}

// Events returns the comparison record.
func (c *Comparison) Events() []any {
	sum := func(c Count) event.DifferenceSum { return event.DifferenceSum(c) }
	return []any{&event.Comparison{Type: "comparison", Source: idText(c.From), Target: idText(c.To), Added: sum(c.Added),
		Removed: sum(c.Removed), Changed: sum(c.Changed)}}
}

func idText(id format.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func (c *Comparison) dict() Dict {
	return Dict{{"AddedSize", c.Added.Bytes}, {"RemovedSize", c.Removed.Bytes}, {"ChangedSize", c.Changed.Bytes}}
}

// Differences is a whole comparison as a property list.
type Differences struct {
	List  []Dict
	Total Comparison
}

// Add adds a difference.
func (d *Differences) Add(one *Difference) { d.List = append(d.List, one.dict()) }

// Text writes XML.
func (d *Differences) Text(w io.Writer) error {
	return WriteXML(w, Dict{{"Changes", d.List}, {"Totals", d.Total.dict()}})
}

// Events returns nothing: with --json each difference is a record.
func (d *Differences) Events() []any { return nil }

// Drift is the average of the steps of calculatedrift.
type Drift struct{ Steps []Comparison }

// Text writes the averages.
func (d *Drift) Text(w io.Writer) error {
	mean := Comparison{Title: "Drift Averages"}
	for i := range d.Steps {
		mean.Added.Bytes += d.Steps[i].Added.Bytes
		mean.Removed.Bytes += d.Steps[i].Removed.Bytes
		mean.Changed.Bytes += d.Steps[i].Changed.Bytes
	}
	n := uint64(max(1, len(d.Steps)))
	mean.Added.Bytes /= n
	mean.Removed.Bytes /= n
	mean.Changed.Bytes /= n
	return mean.Text(w)
}

// Events returns nothing: scripts compute averages from the steps.
func (d *Drift) Events() []any { return nil }

// Unique is what only one snapshot uses.
type Unique struct {
	Backup
	Stored, Raw uint64
}

// Text writes the stored bytes and the path.
func (u *Unique) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%8s  %s\n", size(u.Stored), human.Printable(u.Path))
	return err
}

// Events returns the unique_size record.
func (u *Unique) Events() []any {
	return []any{&event.UniqueSize{Type: "unique_size", Snapshot: u.ID.String(), Stored: u.Stored, Uncompressed: u.Raw}}
}

// Excluded is what the rules say about a path.
type Excluded struct {
	Path     string
	Excluded bool
	Event    any // the decision record
}

// Text writes a line in tmutil's form.
func (e *Excluded) Text(w io.Writer) error {
	word := "[Included]"
	if e.Excluded {
		word = "[Excluded]"
	}
	_, err := fmt.Fprintf(w, "%-14s%s\n", word, human.Printable(e.Path))
	return err
}

// Events returns the decision record.
func (e *Excluded) Events() []any { return []any{e.Event} }

// Exclusions are the answers about several paths as a property list.
type Exclusions struct{ List []Excluded }

// Text writes XML.
func (e *Exclusions) Text(w io.Writer) error {
	all := []Dict{}
	for _, one := range e.List {
		excluded := 0
		if one.Excluded {
			excluded = 1
		}
		all = append(all, Dict{{"IsExcluded", excluded}, {"Path", printableXML(one.Path)}})
	}
	return WriteXML(w, all)
}

// Events returns the decision records.
func (e *Exclusions) Events() (all []any) {
	for _, one := range e.List {
		all = append(all, one.Event)
	}
	return all
}
