package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Options lists the effective options in a table; file is the option file that was read, "" for none.
func Options(list []options.Effective, file string) Record {
	return &result{func(w *show.Page) {
		writeOptions(w, list)
		text := "no option file was read"
		if file != "" {
			text = "option file: " + human.Printable(file)
		}
		fmt.Fprintf(w, "\n%s\n", text)
	}, eventsOf("option", list)}
}

func writeOptions(w *show.Page, list []options.Effective) {
	t := table{head: []string{"Option", "Value|", "From~"}}
	for _, one := range list {
		t.add(one.Name, human.Printable(one.Value), human.Printable(one.Origin))
	}
	t.write(w)
}

// Policy lists the I/O policy and its numbers, a line for each as sysctl does, so that what reads that can read this.
func Policy(list []options.Effective, origins bool) Record {
	return &result{func(w *show.Page) {
		for _, one := range list {
			line := one.Name + ": " + one.Value
			if origins {
				line = fmt.Sprintf("%-48s # %s", line, human.Printable(one.Origin))
			}
			fmt.Fprintln(w, line)
		}
	}, eventsOf("option", list)}
}

// Rules lists rules: a table.
func Rules(list []rules.Rule) Record {
	var all []any
	for _, one := range list {
		all = append(all, event.Of("rule", &event.Rule{Rule: one.Text, Source: one.Origin}))
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

// Decision is what the rules say about a path: the verdict and the rule.
func Decision(subject string, d rules.Decision) Record {
	path, excluded := event.NewPath(subject), d.Verdict == rules.Exclude
	e := &event.Rule{Path: &path, Excluded: &excluded}
	verdict := "included"
	switch d.Verdict {
	case rules.Exclude:
		verdict = "excluded"
	case rules.NotEntered:
		verdict = "included, but nothing in it"
	}
	why := ": no rule says anything about it"
	if r := d.Rule; r != nil {
		e.Rule, e.Source = r.Text, r.Origin
		why = fmt.Sprintf(" by %s (%s, %s)", human.Printable(r.Text), r.Kind, human.Printable(r.Origin))
		if d.Path != subject {
			why += ", which decides about " + human.Printable(d.Path)
		}
	}
	return one("decision", e, func(w *show.Page) { w.Linef("%s: %s%s", human.Printable(subject), verdict, why) })
}
