package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Options lists the effective options.
type Options struct {
	List []options.Effective
	File string // the option file that was read; "" for none
}

// Text writes a table.
func (o *Options) Text(w io.Writer) error {
	t := table{head: []string{"Option", "Value|", "From~"}}
	for _, one := range o.List {
		t.add(one.Name, human.Printable(one.Value), human.Printable(one.Origin))
	}
	if err := t.write(w); err != nil {
		return err
	}
	text := "no option file was read"
	if o.File != "" {
		text = "option file: " + human.Printable(o.File)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// Events returns a record for each option.
func (o *Options) Events() (all []any) {
	for _, one := range o.List {
		all = append(all, event.Of("option", &one))
	}
	return all
}
