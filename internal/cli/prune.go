package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
)

// settling is how old a mark must be where other machines may see a listing that the system keeps for them: a mounted
// share. NFS keeps one for a minute at most unless it was told otherwise, SMB for less; this is twice as long.
const settling = 2 * time.Minute

type pruneFlags struct {
	maxUnused string
	dryRun    bool
	parallel  int
}

// limits registers what 'forget --prune' has as well.
func (f *pruneFlags) limits(flags *pflag.FlagSet) {
	flags.StringVar(&f.maxUnused, "max-unused", "5%", "how much may stay taken by what nothing needs: 5%, 200M (in MB if no unit is named) or unlimited")
}

func (f *pruneFlags) options(a *app) (prune.Options, error) {
	limit, err := prune.ParseLimit(f.maxUnused)
	if err != nil {
		return prune.Options{}, usagef("--max-unused: %w", err)
	}
	if err := together(f.parallel); err != nil {
		return prune.Options{}, err
	}
	opt := prune.Options{MaxUnused: limit, DryRun: f.dryRun, Parallel: f.parallel, Note: a.print.Note}
	opt.Session = repo.SessionOptions{Holder: repo.Holder{Host: hostName()}, Level: level(a.spec.Compression().Level)}
	if at, err := a.place(); err == nil && !at.onShare() && at.remote(a.devices) {
		opt.Settle = settling
	}
	return opt, nil
}

func (a *app) pruneCommand() *cobra.Command {
	f := &pruneFlags{}
	c := a.command(&cobra.Command{
		Use:   "prune [flags]",
		Short: "Give back the room of what no snapshot needs",
		Long: `Removes the data that no snapshot needs any more, once 'tidemark forget' has dropped some. Packs of which nothing is
needed are removed; of packs that are partly needed the emptiest are written anew, until no more than --max-unused of the
repository is taken in vain.

Backups may go on meanwhile, on this machine and on others. What is found to be needed by none is first only marked; it is
removed by the same run if nobody else is writing, else by the next one, after every backup has ended that began before the
mark. A backup that died counts as ended three quarters of an hour later.

If anything that a snapshot needs is missing or damaged, nothing is removed at all.`,
		Example: `  tidemark prune --dry-run
  tidemark prune --max-unused 10%`,
	}, func(ctx context.Context, _ []string) (err error) {
		if _, err := f.options(a); err != nil {
			return err
		}
		r, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		return a.pruneOpen(ctx, r, f)
	}, options.GroupPolicy, options.GroupCompression)
	f.limits(c.Flags())
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "change nothing, only say what would be done")
	c.Flags().IntVar(&f.parallel, "parallel", 0, "folders and packs looked at together (default 4)")
	return c
}

// pruneOpen prunes a repository that is open.
func (a *app) pruneOpen(ctx context.Context, r *repo.Repository, f *pruneFlags) error {
	opt, err := f.options(a)
	if err != nil {
		return err
	}
	if c := a.spec.Cache(); c.Enabled {
		opt.Scratch = r.CacheFolder()
	}
	l := report.NewJob(report.Prune, time.Now)
	opt.Ledger, opt.Session.Observer = l, &observer{ledger: l, note: a.print.Note}
	a.received.book(l)
	defer a.expose(ctx, "prune", nil, l)()
	stop := a.print.Watch(ctx, l)
	res, err := prune.Run(ctx, r, opt)
	stop()
	if err == nil || res.Before.Packs > 0 && ctx.Err() == nil {
		err = errors.Join(err, a.print.Print(&output.Pruned{Ledger: l, Result: res, DryRun: f.dryRun,
			Verbose: a.spec.Output().Verbose > 0}))
	}
	return err
}
