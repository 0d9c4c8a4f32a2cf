package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func (a *app) versionsCommand() *cobra.Command {
	var filter filterFlags
	var recursive bool
	c := a.command(&cobra.Command{
		Use:   "versions [flags] PATH...",
		Short: "List the versions of a file, and how to restore each",
		Long: `Lists the different contents that a file had in the snapshots, from the newest, each with the command that
restores it. PATH is a file, a directory, whose files are listed, or a pattern in quotes, whose * matches within one
name and ** any number of names. The files need not exist any more.

A file with the same content in several snapshots in a row is one version, whatever its owner, mode and times are.`,
		Example: `  tidemark versions ~/report.odt
  tidemark versions '/home/ann/**/*.odt' --host laptop`,
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context, args []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			list, _, err := a.readable(ctx, r, filter.filter())
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return repo.ErrNoSnapshot
			}
			var failed error
			for _, at := range args {
				failed = errors.Join(failed, a.versions(ctx, r, byHost(list), at, recursive))
			}
			return failed
		})
	}, options.GroupPolicy)
	filter.register(c.Flags())
	c.Flags().BoolVarP(&recursive, "recursive", "R", false, "with a directory: the files of its subdirectories too")
	return c
}

// byHost groups snapshots by the machine that made them, as the same path of two machines is two files.
func byHost(list []output.Snapshot) (hosts [][]output.Snapshot) {
	for _, s := range list {
		i := slices.IndexFunc(hosts, func(h []output.Snapshot) bool { return h[0].Snapshot.Host == s.Snapshot.Host })
		if i < 0 {
			i, hosts = len(hosts), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], s)
	}
	return hosts
}

// versions prints the versions of what one argument names.
func (a *app) versions(ctx context.Context, r *repo.Repository, hosts [][]output.Snapshot, argument string,
	recursive bool,
) error {
	at, err := filepath.Abs(argument)
	if err != nil {
		return err
	}
	q := browse.VersionQuery{Dir: path.Dir(at), Inactive: true, Contents: true}
	q.Match = func(p string, _ *tree.Node) bool { return p == at }
	if strings.ContainsAny(argument, "*?[") {
		match, err := browse.Matcher(at)
		if err != nil {
			return &usageError{err}
		}
		for strings.ContainsAny(q.Dir, "*?[") {
			q.Dir = path.Dir(q.Dir)
		}
		q.Match = func(p string, _ *tree.Node) bool { return match(p) }
		q.Enter = path.Dir(at) != q.Dir || strings.Contains(path.Base(at), "**")
	}
	found, err := a.versionsOf(ctx, r, hosts, q)
	if err == nil && found.files == 0 && found.dirs > 0 {
		q = browse.VersionQuery{Dir: at, Inactive: true, Contents: true, Enter: recursive}
		q.Match = func(string, *tree.Node) bool { return true }
		found, err = a.versionsOf(ctx, r, hosts, q)
	}
	if err == nil && found.files == 0 {
		err = fmt.Errorf("no snapshot has a file %s: 'tidemark find %s' looks for the name everywhere", at, path.Base(at))
	}
	return err
}

// seen counts what a query has found.
type seen struct{ files, dirs int }

func (a *app) versionsOf(ctx context.Context, r *repo.Repository, hosts [][]output.Snapshot, q browse.VersionQuery,
) (found seen, err error) {
	for _, list := range hosts {
		dated := make([]browse.Dated, len(list))
		saved := make(map[format.ID]time.Time, len(list))
		for i, s := range list {
			dated[i] = browse.Dated{Snapshot: browse.Snapshot{ID: s.ID, Tree: s.Snapshot.Tree}, Sources: s.Snapshot.Sources}
			saved[s.ID] = time.Unix(s.Snapshot.Time.Sec, int64(s.Snapshot.Time.Nsec))
		}
		host := ""
		if len(hosts) > 1 {
			host = list[0].Snapshot.Host
		}
		last := ""
		err := browse.Versions(ctx, r, dated, q, func(v browse.Version) error {
			if v.Node.Type == tree.Dir {
				found.dirs++
				return nil
			}
			found.files++
			record := &output.ContentVersion{Version: v, Host: host, Saved: saved[v.First], Until: saved[v.Last],
				First: v.Path != last}
			last = v.Path
			return a.print.Print(record)
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}
