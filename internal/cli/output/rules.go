package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Rules lists rules.
type Rules struct{ List []rules.Rule }

// Text writes a table.
func (r *Rules) Text(w io.Writer) error {
	t := table{head: []string{"Kind", "Effect", "Rule~", "From~"}}
	for _, one := range r.List {
		effect := "exclude"
		if one.Include {
			effect = "include"
		}
		t.add(one.Kind.String(), effect, human.Printable(one.Text), human.Printable(one.Origin))
	}
	return t.write(w)
}

// Events returns a record for each rule.
func (r *Rules) Events() []any {
	var all []any
	for _, one := range r.List {
		all = append(all, &event.Rule{Type: "rule", Rule: one.Text, Source: one.Origin})
	}
	return all
}

// Decision is what the rules say about a path.
type Decision struct {
	Subject  string
	Decision rules.Decision
}

// Text writes the verdict and the rule.
func (d *Decision) Text(w io.Writer) error {
	verdict := map[rules.Verdict]string{rules.Exclude: "excluded",
		rules.NotEntered: "included, but nothing in it"}[d.Decision.Verdict]
	if verdict == "" {
		verdict = "included"
	}
	why := ": no rule says anything about it"
	if r := d.Decision.Rule; r != nil {
		why = fmt.Sprintf(" by %s (%s, %s)", human.Printable(r.Text), r.Kind, human.Printable(r.Origin))
		if d.Decision.Path != d.Subject {
			why += ", which decides about " + human.Printable(d.Decision.Path)
		}
	}
	_, err := fmt.Fprintln(w, show.Prose(w, human.Printable(d.Subject)+": "+verdict+why))
	return err
}

// Events returns the decision record.
func (d *Decision) Events() []any {
	path := event.NewPath(d.Subject)
	excluded := d.Decision.Verdict == rules.Exclude
	e := &event.Rule{Type: "decision", Path: &path, Excluded: &excluded}
	if r := d.Decision.Rule; r != nil {
		e.Rule, e.Source = r.Text, r.Origin
	}
	return []any{e}
}
