package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

type versionsFlags struct {
	filter    repo.Filter
	recursive bool
	repo      string // as it was named on the command line: a restore needs it too
}

func (a *app) versionsCommand() *cobra.Command {
	v := &versionsFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "versions [flags] PATH...",
		Short: "List the versions of a file, and how to restore each",
		Long: `Lists the different contents that a file had in the snapshots, from the newest, each with the command that
restores it. PATH is a file, a directory, whose files are listed, or if there is none of that name a pattern in quotes,
with *, ? and [a-z] within one name and ** for any number of names. The files need not exist any more.

A file with the same content in several snapshots in a row is one version, whatever its owner, mode and times are.`,
		Example: `  tidemark versions ~/report.odt
  tidemark versions '/home/ann/**/*.odt' --host laptop`,
		Args: arguments(1, 0),
	}, func(ctx context.Context, args []string) error {
		if flag := c.Flags().Lookup("repo"); flag != nil && flag.Changed {
			v.repo = flag.Value.String()
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			list, _, err := a.readable(ctx, r, v.filter)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return fmt.Errorf("find snapshots%s: %w", v.filter, repo.ErrNoSnapshot)
			}
			var failed error
			for i, at := range args {
				if !slices.Contains(args[:i], at) {
					failed = errors.Join(failed, a.versions(ctx, r, byHost(list), at, v))
				}
			}
			return failed
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &v.filter)
	c.Flags().BoolVarP(&v.recursive, "recursive", "R", false, "with a directory: the files of its subdirectories too")
	return c
}

// byHost groups snapshots by the machine that made them, as the same path of two machines is two files.
func byHost(list []repo.Listed) (hosts [][]repo.Listed) {
	for _, s := range list {
		i := slices.IndexFunc(hosts, func(h []repo.Listed) bool { return h[0].Snapshot.Host == s.Snapshot.Host })
		if i < 0 {
			i, hosts = len(hosts), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], s)
	}
	return hosts
}

// versions prints the versions of what one argument names: a file, else the files of a directory, else what it matches
// as a pattern.
func (a *app) versions(ctx context.Context, r *repo.Repository, hosts [][]repo.Listed, argument string,
	v *versionsFlags,
) error {
	at, err := filepath.Abs(argument)
	if err != nil {
		return err
	}
	q := browse.VersionQuery{Dir: path.Dir(at), Inactive: true, Contents: true}
	q.Match = func(p string, _ *tree.Node) bool { return p == at }
	files, dirs, err := a.versionsOf(ctx, r, hosts, q, v)
	folder := dirs > 0 || at == "/"
	if err == nil && files == 0 && folder {
		q.Dir, q.Enter, q.Match = at, v.recursive, func(string, *tree.Node) bool { return true }
		files, _, err = a.versionsOf(ctx, r, hosts, q, v)
	}
	if err == nil && files == 0 && !folder && strings.ContainsAny(argument, wild) {
		if q, err = patternQuery(argument); err == nil {
			files, _, err = a.versionsOf(ctx, r, hosts, q, v)
		}
	}
	switch {
	case err != nil || files > 0:
		return err
	case folder:
		return fmt.Errorf("%s has no files directly in it: add --recursive", at)
	}
	command := "tidemark find " + human.ShellWord(path.Base(at))
	if v.repo != "" {
		command += " --repo " + human.ShellWord(v.repo)
	}
	return fmt.Errorf("no snapshot has a file %s: '%s' looks for the name everywhere", human.Printable(at), command)
}

// wild are the characters that make a path a pattern.
const wild = "*?["

// patternQuery returns the query for a pattern. Only what was typed is one: the working directory is not.
func patternQuery(argument string) (browse.VersionQuery, error) {
	q := browse.VersionQuery{Dir: "/", Inactive: true, Contents: true}
	typed := path.Clean(argument)
	if !path.IsAbs(typed) {
		dir, err := os.Getwd()
		if err != nil {
			return q, err
		}
		q.Dir = dir
	}
	parts := strings.Split(strings.Trim(typed, "/"), "/")
	for len(parts) > 1 && !strings.ContainsAny(parts[0], wild) {
		q.Dir, parts = path.Join(q.Dir, parts[0]), parts[1:]
	}
	quoted := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(q.Dir)
	match, err := browse.Matcher(path.Join(quoted, strings.Join(parts, "/")))
	if err != nil {
		return q, &usageError{err}
	}
	q.Match = func(p string, _ *tree.Node) bool { return match(p) }
	q.Enter = len(parts) > 1 || strings.Contains(parts[0], "**")
	return q, nil
}

// versionsOf prints what a query finds, and counts it.
func (a *app) versionsOf(ctx context.Context, r *repo.Repository, hosts [][]repo.Listed, q browse.VersionQuery,
	v *versionsFlags,
) (files, dirs int, err error) {
	for _, list := range hosts {
		host := ""
		if len(hosts) > 1 {
			host = list[0].Snapshot.Host
		}
		last := ""
		err := browse.Versions(ctx, r.LoadBlob, list, q, func(one browse.Version) error {
			if one.Node.Type == tree.Dir {
				dirs++
				return nil
			}
			files++
			first := one.Path != last
			last = one.Path
			return a.print.Print(output.ContentVersion(&one, host, v.repo, first))
		})
		if err != nil {
			return files, dirs, err
		}
	}
	return files, dirs, nil
}
