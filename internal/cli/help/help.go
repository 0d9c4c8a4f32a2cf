// Package help lays out the help of a command: a short form that fits a screen, and a long form with every flag.
//
// The short form has the first paragraph of the description and the flags that are not rare, each with the first clause
// of its text. Flags are listed under their topics. Lines are as wide as the terminal.
package help

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// RareCommand is the annotation of a command that the short help of its parent lists by name only.
const RareCommand = "help-rare"

// The limits of the width: wider lines are hard to read, and narrower ones have no space beside the names of flags.
const (
	widest    = 120
	narrowest = 40
)

// briefExamples is how many examples the short form has.
const briefExamples = 2

// Write writes the help of c for a terminal of width columns; with all in the long form.
func Write(w io.Writer, c *cobra.Command, width int, all bool) error {
	p := &page{all: all, width: min(max(width, narrowest), widest)}
	p.describe(c)
	p.commands(c)
	hidden := p.flags(c)
	if !all && (hidden || p.shortened) {
		p.paragraph("All flags and details: " + c.CommandPath() + " --help --all")
	}
	_, err := io.WriteString(w, strings.TrimRight(p.b.String(), "\n")+"\n")
	return err
}

// page collects the text.
type page struct {
	b         strings.Builder
	width     int
	all       bool
	shortened bool // the short form lacks a part of the description or commands
}

// describe writes the description, the usage line and the examples.
func (p *page) describe(c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	paragraphs := strings.Split(text, "\n\n")
	if !p.all {
		n := 1
		for n < len(paragraphs) && strings.HasSuffix(paragraphs[n-1], ":") {
			n++ // it introduces the next one
		}
		p.shortened = len(paragraphs) > n
		paragraphs = paragraphs[:n]
	}
	for _, one := range paragraphs {
		p.paragraph(one)
	}
	usage := c.UseLine()
	if !c.Runnable() || c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	p.paragraph("Usage: " + usage)
	if c.Example == "" {
		return
	}
	examples := strings.Split(c.Example, "\n")
	if !p.all && len(examples) > briefExamples {
		p.shortened = true
		examples = examples[:briefExamples]
	}
	p.b.WriteString("Examples:\n" + strings.Join(examples, "\n") + "\n\n")
}

// commands lists the commands below c.
func (p *page) commands(c *cobra.Command) {
	var listed [][2]string
	var rare []string
	for _, sub := range c.Commands() {
		switch {
		case !sub.IsAvailableCommand():
		case !p.all && sub.Annotations[RareCommand] != "":
			rare = append(rare, sub.Name())
		default:
			listed = append(listed, [2]string{sub.Name(), sub.Short})
		}
	}
	if len(listed) > 0 {
		p.b.WriteString("Commands:\n")
		column := 0
		for _, one := range listed {
			column = max(column, p.fitting(one[0]))
		}
		for _, one := range listed {
			p.row(column, one[0], one[1])
		}
		p.b.WriteString("\n")
	}
	if len(rare) > 0 {
		p.paragraph("More commands: " + strings.Join(rare, ", "))
	}
}

// flags lists the flags of c by topic, and reports whether the short form lacks some of them.
func (p *page) flags(c *cobra.Command) (hidden bool) {
	lists := map[options.Topic][]*pflag.Flag{}
	c.InheritedFlags() // adds them to Flags
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
		case !p.all && (rare(f) || c.HasAvailableSubCommands()):
			hidden = true
		default:
			lists[topic(f)] = append(lists[topic(f)], f)
		}
	})
	column := 0
	for _, list := range lists {
		for _, f := range list {
			column = max(column, p.fitting(name(f)))
		}
	}
	for _, t := range options.Topics() {
		if len(lists[t]) == 0 {
			continue
		}
		p.b.WriteString(string(t) + ":\n")
		for _, f := range lists[t] {
			p.row(column, name(f), p.meaning(f))
		}
		if p.all {
			p.b.WriteString("\n")
		}
	}
	if !p.all && len(lists) > 0 {
		p.b.WriteString("\n")
	}
	return hidden
}

// name returns the flag as it is written: its letter, its name and the kind of its value.
func name(f *pflag.Flag) string {
	text := "    --" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", --" + f.Name
	}
	kind, _ := pflag.UnquoteUsage(f)
	switch {
	case f.NoOptDefVal != "":
		return text
	case kind == "n", kind == "int", kind == "uint":
		kind = "N"
	case strings.HasPrefix(kind, "string"):
		kind = "TEXT"
	}
	return strings.TrimRight(text+" "+strings.ToUpper(kind), " ")
}

// meaning returns the text of a flag with its default. The short form ends before the first semicolon and omits auto.
func (p *page) meaning(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	if !p.all {
		text, _, _ = strings.Cut(text, "; ")
	}
	plain := []string{"false", "0", "[]", "no"}
	if !p.all {
		plain = append(plain, "auto")
	}
	if f.DefValue != "" && !slices.Contains(plain, f.DefValue) {
		text += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return text
}

// fitting returns the length of a name that fits beside its meaning, 0 for a longer one.
func (p *page) fitting(name string) int {
	if n := utf8.RuneCountInString(name); n <= p.width*2/5 {
		return n
	}
	return 0
}

// row writes a name and its meaning. A name that does not fit in its column has a line of its own.
func (p *page) row(column int, name, meaning string) {
	lines := wrap(meaning, p.width-column-4)
	if utf8.RuneCountInString(name) > column {
		lines = append([]string{""}, lines...)
	}
	for i, line := range lines {
		if i > 0 {
			name = ""
		}
		p.b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s  %s", column, name, line), " ") + "\n")
	}
}

// paragraph writes text, wrapped, and a blank line. Lines that start with a blank are not joined.
func (p *page) paragraph(text string) {
	var flow []string
	flush := func() {
		if len(flow) > 0 {
			for _, line := range wrap(strings.Join(flow, " "), p.width) {
				p.b.WriteString(line + "\n")
			}
		}
		flow = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") {
			flush()
			p.tabbed(line)
			continue
		}
		flow = append(flow, line)
	}
	flush()
	p.b.WriteString("\n")
}

// tabbed writes a line of two columns, with the second one wrapped.
func (p *page) tabbed(line string) {
	first := len(line) - len(strings.TrimLeft(line, " "))
	gap := strings.Index(line[first:], "  ")
	if gap < 0 || first < 2 || utf8.RuneCountInString(line) <= p.width {
		p.b.WriteString(line + "\n")
		return
	}
	name := line[first : first+gap]
	text := strings.TrimLeft(line[first+gap:], " ")
	p.row(len(line)-len(text)-4, line[2:first]+name, text)
}

// wrap splits text into lines of at most width columns, between words. A longer word has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
