package cli

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/cli/tm"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// tmName is the name of the command for users of tmutil.
const tmName = "tm"

func (a *app) tmCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   tmName,
		Short: "Understand commands of Time Machine's tmutil",
		Long: `Understands commands of tmutil and prints its forms. Snapshots have names like those of Time Machine's backups:

    REPOSITORY/HOST/2026-11-23-081500.backup

Where a command takes a SNAPSHOT, write such a name, its last part, or what other commands of tidemark take. Commands
of tmutil that are not in the list are answered with the command that does the same.`,
		Example: `  tidemark tm listbackups
  tidemark tm compare
  tidemark tm uniquesize 2026-11-23-081500.backup`,
	}, "a command of the list", a.tmListCommand("listbackups", "List the snapshots of this machine", false),
		a.tmListCommand("latestbackup", "Print the newest snapshot of this machine", true), a.tmCompareCommand(),
		a.tmDriftCommand(), a.tmUniqueCommand(), a.tmExcludedCommand(),
		a.tmExclusionCommand("addexclusion", "Exclude paths", true),
		a.tmExclusionCommand("removeexclusion", "Remove exclusions that addexclusion has added", false), a.tmStartCommand(),
		a.tmStopCommand(), a.tmStatusCommand(), a.tmDestinationCommand())
}

// hostFlag registers the flag that selects the machine.
func hostFlag(c *cobra.Command) *string {
	return c.Flags().StringP("host", "H", "", "snapshots of this host (default: this machine)")
}

// xmlFlag registers tmutil's flag for property lists.
func xmlFlag(c *cobra.Command) *bool {
	return c.Flags().BoolP("xml", "X", false, "print an XML property list")
}

// tmBackups returns the snapshots of a host, "" for this machine, oldest first. unread counts those that cannot be
// read.
func (a *app) tmBackups(ctx context.Context, r *repo.Repository, host string) (
	list []tm.Backup, unread uint64, err error,
) {
	if host == "" {
		host = hostName()
	}
	all, unread, err := a.readable(ctx, r, repo.Filter{Hosts: []string{host}})
	at := r.Store().Location()
	for _, s := range whole(all) {
		list = append(list, tm.NewBackup(at, s.ID, s.Snapshot))
	}
	tm.Distinguish(at, list)
	return list, unread, err
}

// warnUncertain warns that the newest snapshot may be one of those that cannot be read.
func (a *app) warnUncertain(unread uint64) {
	if unread > 0 {
		a.warnAlways(fmt.Sprintf("the newest backup is uncertain, since %s cannot be read: 'tidemark check' shows what is "+
			"wrong", human.Plural(unread, "snapshot")))
	}
}

func (a *app) tmListCommand(name, short string, latest bool) *cobra.Command {
	var stamps, ids bool
	var host *string
	c := a.command(&cobra.Command{Use: name + " [flags]", Short: short}, func(ctx context.Context, _ []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			list, unread, err := a.tmBackups(ctx, r, *host)
			switch {
			case err != nil:
				return err
			case latest && len(list) == 0:
				return errNoBackups
			case latest:
				list = list[len(list)-1:]
				a.warnUncertain(unread)
			}
			for _, b := range list {
				event := (&output.Snapshot{ID: b.ID, Snapshot: b.Snapshot}).Events()[0]
				if err := a.print.Print(&tm.Listed{Backup: b, Stamp: stamps, WithID: ids, Event: event}); err != nil {
					return err
				}
			}
			return nil
		})
	}, options.GroupPolicy)
	host = hostFlag(c)
	c.Flags().BoolVarP(&stamps, "timestamps", "t", false, "print times instead of paths")
	c.Flags().BoolVarP(&ids, "ids", "i", false, "print the ID in front")
	return c
}

// tmFind returns the snapshot that ref names, in the form of listbackups or in tidemark's, and the path in its tree.
func (a *app) tmFind(ctx context.Context, r *repo.Repository, list []tm.Backup, ref string) (tm.Backup, string, error) {
	b, sub, named, err := tm.Find(list, ref)
	if err != nil {
		return tm.Backup{}, "", err
	}
	if !named {
		found, sub, err := find(ctx, r, ref, repo.Filter{})
		if err != nil {
			return tm.Backup{}, "", err
		}
		return tm.NewBackup(r.Store().Location(), found.ID, found.Snapshot), sub, nil
	}
	return *b, sub, nil
}

func (a *app) tmDriftCommand() *cobra.Command {
	var host *string
	c := a.command(&cobra.Command{
		Use:   "calculatedrift [flags] [REPOSITORY/HOST]",
		Short: "Show how much changed from each snapshot to the next",
		Long: `Compares each snapshot of a machine with the one before of the same paths. The sizes are those of files, before
deduplication and compression.`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			*host = path.Base(args[0])
		}
		return a.withRepository(ctx, func(r *repo.Repository) error { return a.tmDrift(ctx, r, *host) })
	}, options.GroupPolicy)
	host = hostFlag(c)
	return c
}

// tmDrift compares each snapshot of a host with the one before of the same paths.
func (a *app) tmDrift(ctx context.Context, r *repo.Repository, host string) error {
	list, _, err := a.tmBackups(ctx, r, host)
	if err != nil {
		return err
	}
	drift := &tm.Drift{}
	before := map[string]tm.Backup{} // by paths
	for _, b := range list {
		paths := strings.Join(b.Snapshot.Sources, "\x00")
		was, ok := before[paths]
		before[paths] = b
		if !ok {
			continue
		}
		step := tm.Comparison{From: was.ID, To: b.ID, Title: was.Name + " - " + b.Name}
		opt := browse.DiffOptions{Metadata: true}
		_, err := browse.Diff(ctx, r, was.Snapshot.Tree, b.Snapshot.Tree, opt, func(c browse.Change) error {
			if d := tm.NewDifference(c, tm.Usual|tm.Data); d != nil {
				step.Add(d)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := a.print.Print(&step); err != nil {
			return err
		}
		drift.Steps = append(drift.Steps, step)
	}
	return a.print.Print(drift)
}

func (a *app) tmUniqueCommand() *cobra.Command {
	var host *string
	c := a.command(&cobra.Command{
		Use:   "uniquesize [flags] SNAPSHOT...",
		Short: "Show how much space only one snapshot uses",
		Long: `Shows for each snapshot the size of the data that no other snapshot needs, as it is stored: compressed and
encrypted. Removing the snapshot and pruning all unused data frees about that much. Data that is stored together with
other data counts in proportion.

All trees of the repository are read. What several snapshots share counts for none of them.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			list, _, err := a.tmBackups(ctx, r, *host)
			if err != nil {
				return err
			}
			var named []tm.Backup
			var ids []format.ID
			for _, arg := range args {
				b, sub, err := a.tmFind(ctx, r, list, arg)
				if err != nil {
					return err
				}
				if strings.Trim(sub, "/") != "" {
					return usagef("%s: name a whole snapshot", arg)
				}
				named, ids = append(named, b), append(ids, b.ID)
			}
			opt := prune.Options{}
			if a.spec.Cache().Enabled {
				opt.Scratch = r.CacheFolder()
			}
			used, err := prune.Unique(ctx, r, opt, ids)
			if err != nil {
				return fmt.Errorf("find what only these snapshots use: %w", err)
			}
			for i, b := range named {
				if err := a.print.Print(&tm.Unique{Backup: b, Stored: used[i].Stored, Raw: used[i].Raw}); err != nil {
					return err
				}
			}
			return nil
		})
	}, options.GroupPolicy)
	host = hostFlag(c)
	return c
}
