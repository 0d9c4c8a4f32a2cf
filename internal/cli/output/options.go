package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Options lists the effective options.
type Options struct {
	List []options.Effective
	File string // the option file that was read; "" for none
}

// Text writes a table.
func (o *Options) Text(w *show.Page) {
	writeOptions(w, o.List)
	text := "no option file was read"
	if o.File != "" {
		text = "option file: " + human.Printable(o.File)
	}
	fmt.Fprintf(w, "\n%s\n", text)
}

func writeOptions(w *show.Page, list []options.Effective) {
	t := table{head: []string{"Option", "Value|", "From~"}}
	for _, one := range list {
		t.add(one.Name, human.Printable(one.Value), human.Printable(one.Origin))
	}
	t.write(w)
}

// Events returns a record for each option.
func (o *Options) Events() (all []any) {
	for _, one := range o.List {
		all = append(all, event.Of("option", &one))
	}
	return all
}

// Policy lists the I/O policy and its numbers.
type Policy struct {
	List    []options.Effective
	Origins bool // in text too
}

// Text writes a line for each as sysctl does, so that what reads that can read this.
func (p *Policy) Text(w *show.Page) {
	for _, one := range p.List {
		line := one.Name + ": " + one.Value
		if p.Origins {
			line = fmt.Sprintf("%-48s # %s", line, human.Printable(one.Origin))
		}
		fmt.Fprintln(w, line)
	}
}

// Events returns a record for each.
func (p *Policy) Events() []any { return (&Options{List: p.List}).Events() }

// Rules lists rules: a table.
func Rules(list []rules.Rule) Record {
	var all []any
	for _, one := range list {
		all = append(all, &event.Rule{Type: "rule", Rule: one.Text, Source: one.Origin})
	}
	return &result{func(w *show.Page) {
		t := table{head: []string{"Kind", "Effect", "Rule~", "From~"}}
		for _, one := range list {
			effect := "exclude"
			if one.Include {
				effect = "include"
			}
			t.add(one.Kind.String(), effect, human.Printable(one.Text), human.Printable(one.Origin))
		}
		t.write(w)
	}, all}
}

// Decision is what the rules say about a path.
type Decision struct {
	Subject  string
	Decision rules.Decision
}

// Text writes the verdict and the rule.
func (d *Decision) Text(w *show.Page) {
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
	w.Linef("%s: %s%s", human.Printable(d.Subject), verdict, why)
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
