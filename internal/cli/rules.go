package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func (a *app) rulesCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "rules",
		Short: "Show the rules that select what is backed up",
	}, "list, or explain PATH", a.rulesListCommand(), a.rulesExplainCommand())
}

func (a *app) rulesListCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "list [flags]",
		Short: "List the rules in the order in which they are applied",
		Long:  `Lists the rules that a backup with the same flags, environment and option file would apply.`,
	}, func(ctx context.Context, _ []string) error {
		chosen, err := a.choose(ctx, a.spec, nil)
		if err != nil {
			return err
		}
		return a.print.Print(output.Rules(chosen.Rules.List()))
	}, options.GroupSelection)
}

func (a *app) rulesExplainCommand() *cobra.Command {
	var source string
	c := a.command(&cobra.Command{
		Use:   "explain [flags] PATH...",
		Short: "Show which rule includes or excludes a path",
		Long: `Shows the rule that includes or excludes a path in a backup with the same flags, environment and option file.
The path need not exist: then rules for directories and rules for files both apply. Ignore files and marker files are
read from the directory of --source downwards.`,
		Example: "  tidemark rules explain --exclude '*.o' ~/src/main.o",
		Args:    arguments(1, 0),
	}, func(ctx context.Context, args []string) error {
		chosen, err := a.choose(ctx, a.spec, nil)
		if err != nil {
			return err
		}
		if source, err = filepath.Abs(source); err != nil {
			return fmt.Errorf("find source: %w", err)
		}
		for _, path := range args {
			q, err := query(path, source)
			if err != nil {
				return err
			}
			if err := a.print.Print(output.Decision(q.Path, explain(chosen.Rules, q))); err != nil {
				return err
			}
		}
		return nil
	}, options.GroupSelection)
	c.Flags().StringVar(&source, "source", "/", "the directory that is backed up")
	return c
}

// explain adds the decision about file systems on the way to the path, as the scan makes it.
func explain(set *rules.Set, q rules.Query) rules.Decision {
	d := set.Explain(q)
	if d.Verdict == rules.NeedType { // the path does not exist: report a rule that excludes it as a directory or as a file
		q.Type = tree.Dir
		if d = set.Explain(q); d.Verdict == rules.Include {
			q.Type = tree.File
			d = set.Explain(q)
		}
	}
	if d.Verdict != rules.Include {
		return d
	}
	rest := strings.TrimPrefix(q.Path, strings.TrimSuffix(q.Source, "/"))
	at, last := q.Source, uint64(0)
	for i, name := range strings.Split(rest, "/") {
		at = filepath.Join(at, name)
		dir, err := localfs.OpenDir(at)
		if err != nil {
			return d
		}
		st, err := dir.Fstat()
		fs, fsErr := dir.FS()
		dir.Release()
		if err != nil || fsErr != nil {
			return d
		}
		if i > 0 && st.Dev != last && set.Mount(at, fs.Pseudo) == rules.NotEntered {
			return hollow(set, d, q.Path, at, fs.Pseudo)
		}
		last = st.Dev
	}
	return d
}

// hollow returns the decision about a file system that is not entered: its root is included, its contents are not.
func hollow(set *rules.Set, d rules.Decision, path, root string, pseudo bool) rules.Decision {
	d.Verdict, d.Path = rules.Exclude, root
	if path == root {
		d.Verdict = rules.NotEntered
	}
	for _, r := range set.List() {
		if r.Kind == rules.OneSystem || r.Kind == rules.Pseudo && pseudo {
			d.Rule = &r
			break
		}
	}
	return d
}

// query describes a path as a scan sees it.
func query(path, source string) (rules.Query, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return rules.Query{}, fmt.Errorf("find path: %w", err)
	}
	q := rules.Query{Path: path, Source: source, Read: readStart}
	dir, err := localfs.OpenDir(filepath.Dir(path))
	if err != nil {
		return q, nil // missing or not accessible: the rules about names still apply
	}
	defer dir.Release()
	name := filepath.Base(path)
	if path == "/" {
		name = "."
	}
	var st localfs.Stat
	if err := dir.Lstat(name, &st); err != nil {
		return q, nil
	}
	q.Type, q.Size, q.NoDump = st.Type, st.Size, st.Attr&localfs.AttrNoDump != 0
	if st.Type == tree.File || st.Type == tree.Dir {
		xattrs, err := dir.Xattrs(name, st.Type)
		if err != nil {
			return q, fmt.Errorf("read attributes of %s: %w", path, err)
		}
		for _, x := range xattrs {
			if x.Name == rules.StickyXattr {
				q.Sticky = x.Value
			}
		}
	}
	return q, nil
}

// readStart returns the beginning of a file without following links.
func readStart(path string, limit int) ([]byte, error) {
	dir, err := localfs.OpenDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Release()
	content, err := dir.ReadStart(filepath.Base(path), limit)
	if errors.Is(err, localfs.ErrVanished) {
		return nil, fs.ErrNotExist
	}
	return content, err
}
