package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/cli/tm"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/setup"
)

func (a *app) tmExcludedCommand() *cobra.Command {
	var xml *bool
	c := a.command(&cobra.Command{
		Use:   "isexcluded [flags] PATH...",
		Short: "Show whether the rules in effect exclude paths",
		Long: `Shows whether a backup of the DOMAIN of the option file, or of any folder if there is none, excludes paths.
'tidemark rules explain' names the rule.`,
		Args: cobra.MinimumNArgs(1),
	}, func(_ context.Context, args []string) error {
		sources, err := a.domain()
		if err != nil {
			return err
		}
		set, err := a.ruleSet()
		if err != nil {
			return err
		}
		all := &tm.Exclusions{}
		for _, arg := range args {
			d, err := decide(set, sources, arg)
			if err != nil {
				return err
			}
			excluded := d.Decision.Verdict == rules.Exclude
			all.List = append(all.List, tm.Excluded{Path: d.Subject, Excluded: excluded, Event: d.Events()[0]})
		}
		if *xml {
			return a.print.Print(all)
		}
		for i := range all.List {
			if err := a.print.Print(&all.List[i]); err != nil {
				return err
			}
		}
		return nil
	})
	xml = xmlFlag(c)
	return c
}

// decide returns what the rules say about a path in a backup of sources; none: of any folder. What lies outside of all
// sources is excluded.
func decide(set *rules.Set, sources []string, path string) (*output.Decision, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find path: %w", err)
	}
	source, above := "/", false
	if len(sources) > 0 {
		source = ""
		for _, one := range sources { // the innermost source counts
			if tm.Within(path, one) && len(one) > len(source) {
				source = one
			}
			above = above || tm.Within(one, path)
		}
	}
	d := &output.Decision{Subject: path}
	switch {
	case source == "" && above:
		return d, nil
	case source == "":
		outside := rules.Rule{Text: "DOMAIN " + strings.Join(sources, " "), Origin: "the sources of the option file"}
		d.Decision = rules.Decision{Verdict: rules.Exclude, Rule: &outside, Path: path}
		return d, nil
	}
	q, err := query(path, source)
	if err != nil {
		return nil, err
	}
	d.Decision = explain(set, q)
	return d, nil
}

// exclusionKeyword is the keyword of the lines that addexclusion adds.
const exclusionKeyword = "EXCLUDEPATTERN"

func (a *app) tmExclusionCommand(name, short string, add bool) *cobra.Command {
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   name + " [flags] PATH...",
		Short: short,
		Long: short + ` by lines of the option file; all other lines stay. An exclusion is that of the path: it does not move
with the object, also without -p. 'tidemark options' prints which option file is in effect.`,
		Args: cobra.MinimumNArgs(1),
	}, func(_ context.Context, args []string) error { return a.tmExclude(c.Flags(), args, add) })
	ownShorthand(c, "password-file")
	c.Flags().BoolP("fixed-path", "p", false, "the exclusion is that of the path; always so")
	help.Rare(c.Flags(), "fixed-path")
	return c
}

// ownShorthand gives a command its own copy of a global flag, without the letter, so that another flag can have it.
func ownShorthand(c *cobra.Command, name string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.Register(all, options.GroupKeys)
	f := all.Lookup(name)
	f.Shorthand = ""
	c.Flags().AddFlag(f)
}

// tmExclude adds or removes the lines for paths, and checks that the rules then say so before it writes the file.
func (a *app) tmExclude(flags *pflag.FlagSet, paths []string, add bool) error {
	file := a.spec.File()
	if file == "" {
		file = options.UserFile(a.Env)
	}
	before, err := setup.ReadRegular(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the option file: %w", err)
	}
	now := before
	all := &setup.File{Path: file, Content: before}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("find path: %w", err)
		}
		line := options.Setting{Keyword: exclusionKeyword, Value: setup.EscapeGlob(path), List: true}
		change := setup.Remove
		if add {
			change = setup.Edit
		}
		f, err := change(file, now, a.server(flags), []options.Setting{line})
		if err != nil {
			return err
		}
		if len(f.Changes) > 0 {
			now = f.New
		}
		all.Changes = slices.Concat(all.Changes, f.Changes)
		if err := a.checkExclusion(flags, file, now, path, add); err != nil {
			return err
		}
	}
	if len(all.Changes) > 0 {
		all.New = now
		kept, err := all.Save()
		if err != nil {
			return err
		}
		if kept != "" { // the other command undoes this one, so no copy is needed
			if err := os.Remove(kept); err != nil {
				return fmt.Errorf("write the option file: %w", err)
			}
		}
	}
	return a.print.Print(&tm.Silent{Record: &output.Changes{File: all}})
}

// checkExclusion checks that a path is excluded or not, as it is meant to be, by the rules of an option file with new
// content.
func (a *app) checkExclusion(flags *pflag.FlagSet, file string, content []byte, path string, excluded bool) error {
	if a.spec.File() == "" && len(content) == 0 {
		return nil
	}
	spec, _, err := options.Resolve(flags, a.Env, func(name string) ([]byte, error) {
		if name == file {
			return content, nil
		}
		return os.ReadFile(name)
	})
	if err != nil {
		return err
	}
	set, _, err := spec.Rules(os.ReadFile, a.Env)
	if err != nil {
		return &usageError{err}
	}
	d, err := decide(set, nil, path)
	if err != nil || (d.Decision.Verdict == rules.Exclude) == excluded {
		return err
	}
	rule := "another rule"
	if r := d.Decision.Rule; r != nil {
		rule = fmt.Sprintf("the rule %q of %s", r.Text, r.Origin)
	}
	does := "excludes"
	if excluded {
		does = "includes"
	}
	return fmt.Errorf("%s: %s %s it: change that rule; nothing was written", human.Printable(path),
		human.Printable(rule), does)
}
