package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/copy"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

type copyFlags struct {
	filter   filterFlags
	dryRun   bool
	new      bool
	exact    bool
	parallel int
}

func (a *app) copyCommand() *cobra.Command {
	f := &copyFlags{}
	c := a.command(&cobra.Command{
		Use:   "copy [flags] --from-repo REPOSITORY [SNAPSHOT...]",
		Short: "Copy snapshots from another repository into this one",
		Long: `Copies snapshots from the repository of --from-repo into the repository of --repo: all, those that --host,
--path and --tag select, or those that are named. Each copy records its original, so a later run skips it.

Files are not chunked again. If both repositories have the same master key ('tidemark init --same-key'), data keeps its
IDs; otherwise each chunk gets a new ID. Each snapshot is compared with the one copied before it, so a later copy costs
about as much as has changed. For that, keep the snapshot that was copied last in the source. --new leaves out what was
there, copied or not, when the newest copy of the same machine and sources was made.

An interrupted copy continues when it is started again: stored data is not sent again. A snapshot that is damaged in the
source is not copied; the others are, and the exit code is 1.`,
		Example: `  tidemark copy --repo /mnt/usb/backup --from-repo smb://me@nas/backup/laptop`,
		Args:    cobra.ArbitraryArgs,
	}, func(ctx context.Context, args []string) error {
		if err := checkParallel(f.parallel); err != nil {
			return err
		}
		if f.exact && len(f.filter.paths) == 0 {
			return usagef("--exact-paths needs --path: name the paths")
		}
		return a.copy(ctx, f, args)
	}, options.GroupFrom, options.GroupPolicy, options.GroupParallel, options.GroupCompression)
	f.filter.register(c.Flags())
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "copy nothing, report what would be copied")
	c.Flags().BoolVar(&f.new, "new", false, "only what is newer than the newest copy")
	c.Flags().BoolVar(&f.exact, "exact-paths", false, "with --path: leave out snapshots that have other paths, too")
	c.Flags().IntVar(&f.parallel, "parallel", 0, "packs of the source read at the same time; default 4")
	help.Rare(c.Flags(), "exact-paths", "parallel")
	return c
}

// source returns the repository to copy from.
func (a *app) source() *place.Place { return a.place.Beside(a.spec.Source()) }

func (a *app) copy(ctx context.Context, f *copyFlags, refs []string) (err error) {
	if a.spec.Source().Repository().Location == "" {
		return usagef("name the repository to copy from with --from-repo or TIDEMARK_FROM_REPOSITORY")
	}
	a.applyPolicy(options.LaterBackup)
	source := a.source()
	from, err := source.Open(ctx)
	if err != nil {
		return ofSource(err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	filter := f.filter.filter()
	filter.Exact = f.exact
	chosen, err := a.selectSnapshots(ctx, from, refs, filter)
	if err != nil {
		return err
	}
	if all := len(chosen); len(refs) == 0 {
		if chosen = whole(chosen); len(chosen) < all {
			a.print.Note("left out: " + human.Plural(uint64(all-len(chosen)), "partial snapshot") +
				"; name one by its ID to copy it")
		}
	}
	l := report.NewJob(report.Copy, time.Now)
	a.place.Intake.Attach(l)
	source.Intake.Attach(l)
	defer a.publish(ctx, "copy", nil, l)()
	stop := a.print.Watch(ctx, l)
	opt := a.copyOptions(f, l)
	for _, s := range chosen {
		if !slices.ContainsFunc(opt.Snapshots, func(o repo.Listed) bool { return o.ID == s.ID }) {
			opt.Snapshots = append(opt.Snapshots, s)
		}
	}
	var failed error
	opt.Each = func(s copy.Snapshot) {
		failed = errors.Join(failed, a.print.Print(&output.CopiedSnapshot{Of: s, DryRun: f.dryRun}))
	}
	if c := a.spec.Cache(); c.Enabled {
		opt.Scratch = to.CacheFolder()
	}
	res, err := copy.Run(ctx, from, to, opt)
	if err == nil {
		l.Phase(report.Done)
	}
	stop()
	if err == nil || errors.Is(err, copy.ErrFailed) {
		failed = errors.Join(failed, a.print.Report(&output.Copied{Ledger: l, Result: res, DryRun: f.dryRun,
			Full: a.spec.Output().Full}))
	}
	return errors.Join(err, failed)
}

func (a *app) copyOptions(f *copyFlags, l *report.Ledger) copy.Options {
	par := a.spec.Parallel(sysinfo.CPUCount(), options.Media{Target: a.place.Medium()})
	return copy.Options{
		New: f.new, Parallel: f.parallel, Ledger: l, Note: a.print.Note,
		Session: repo.SessionOptions{
			Holder: repo.Holder{Host: hostName()}, Level: level(a.spec.Compression().Level), DryRun: f.dryRun,
			Uploads: par.Workers.Uploads, Memory: par.Memory, Observer: &observer{ledger: l, note: a.print.Note},
		},
	}
}
