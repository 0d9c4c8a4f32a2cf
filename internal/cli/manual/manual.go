// Package manual writes the commands' help as man pages and as Markdown, one file per command. It knows cobra's commands
// and refuses to know what they do.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Form is how a page is written.
type Form struct {
	page      func(p *page) string
	extension string
}

// Roff is the form of man pages.
func Roff() Form { return Form{roff, ".1"} }

// Markdown is the form of docs/cli.
func Markdown() Form { return Form{markdown, ".md"} }

// page is what there is to say about a command.
type page struct {
	name, short, long, usage, example string
	flags, inherited                  []flag
	parent                            string // "" for the root
	children                          []child
}

type child struct{ name, short string }

// flag is one row of a list of flags.
type flag struct{ names, help string }

// Write writes a page for root and each of its commands into dir, but not for hidden ones.
func Write(root *cobra.Command, dir string, form func() Form) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write manual: %w", err)
	}
	return write(root, dir, form())
}

func write(c *cobra.Command, dir string, form Form) error {
	p := describe(c)
	path := filepath.Join(dir, fileName(p.name)+form.extension)
	if err := os.WriteFile(path, []byte(form.page(p)), 0o644); err != nil {
		return fmt.Errorf("write manual: %w", err)
	}
	for _, sub := range c.Commands() {
		if sub.Hidden {
			continue
		}
		if err := write(sub, dir, form); err != nil {
			return err
		}
	}
	return nil
}

func fileName(name string) string { return strings.ReplaceAll(name, " ", "-") }

func describe(c *cobra.Command) *page {
	c.InitDefaultHelpFlag()
	p := &page{name: c.CommandPath(), short: c.Short, long: c.Long, usage: c.UseLine(), example: c.Example,
		flags: list(c.NonInheritedFlags()), inherited: list(c.InheritedFlags())}
	if p.long == "" {
		p.long = c.Short + "."
	}
	if c.HasParent() {
		p.parent = c.Parent().CommandPath()
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			p.children = append(p.children, child{sub.CommandPath(), sub.Short})
		}
	}
	return p
}

func list(set *pflag.FlagSet) []flag {
	var all []flag
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, help := pflag.UnquoteUsage(f)
		names := "--" + f.Name
		if f.Shorthand != "" {
			names = "-" + f.Shorthand + ", " + names
		}
		if value != "" && f.NoOptDefVal == "" {
			names += " " + value
		}
		if plain(f.DefValue) && !strings.Contains(help, "(default") {
			help += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		all = append(all, flag{names, help})
	})
	return all
}

// plain reports whether a default is worth showing.
func plain(value string) bool {
	return value != "" && value != "false" && value != "no" && value != "0" && value != "[]"
}
