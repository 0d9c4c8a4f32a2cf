package cli

import (
	"context"
	"errors"
	"slices"

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

func (a *app) copyCommand() *cobra.Command {
	var filter repo.Filter
	var opt copy.Options
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
		if err := checkParallel(opt.Parallel); err != nil {
			return err
		}
		if err := checkExact(&filter); err != nil {
			return err
		}
		return a.copy(ctx, filter, opt, args)
	}, options.GroupFrom, options.GroupPolicy, options.GroupParallel, options.GroupCompression)
	filterFlags(c.Flags(), &filter)
	c.Flags().BoolVarP(&opt.DryRun, "dry-run", "n", false, "copy nothing, report what would be copied")
	c.Flags().BoolVar(&opt.New, "new", false, "only what is newer than the newest copy")
	exactFlag(c.Flags(), &filter)
	c.Flags().IntVar(&opt.Parallel, "parallel", 0, "packs of the source read at the same time; default 4")
	help.Rare(c.Flags(), "parallel")
	return c
}

// source returns the repository to copy from.
func (a *app) source() *place.Place { return a.place.Beside(a.spec.Source()) }

func (a *app) copy(ctx context.Context, filter repo.Filter, opt copy.Options, refs []string) (err error) {
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
	l, end := a.begin(ctx, report.Copy)
	defer end()
	source.Intake.Attach(l)
	stop := a.print.Watch(ctx, l)
	dry := opt.DryRun
	par := a.spec.Parallel(sysinfo.CPUCount(), options.Media{Target: a.place.Medium()})
	opt.Scratch = a.cacheFolder(to)
	a.writes(&opt.SessionOptions, l)
	opt.Uploads, opt.Memory = par.Workers.Uploads, par.Memory
	for _, s := range chosen {
		if !slices.ContainsFunc(opt.Snapshots, func(o repo.Listed) bool { return o.ID == s.ID }) {
			opt.Snapshots = append(opt.Snapshots, s)
		}
	}
	var failed error
	opt.Each = func(s copy.Snapshot) {
		failed = errors.Join(failed, a.print.Print(output.CopiedSnapshot(s, dry)))
	}
	res, err := copy.Run(ctx, from, to, opt)
	if err == nil {
		l.Phase(report.Done)
	}
	stop()
	if err == nil || errors.Is(err, copy.ErrFailed) {
		failed = errors.Join(failed, a.print.Report(output.Copied(l, res, dry)))
	}
	return errors.Join(err, failed)
}
