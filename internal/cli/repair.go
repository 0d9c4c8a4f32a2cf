package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

func (a *app) repairCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "repair",
		Short: "Repair a damaged repository",
		Long: `Repairs damage that 'tidemark check' finds. First restore the damaged files from a copy of the repository if
there is one, and run 'tidemark backup' of every source: it stores again everything that still exists. That recovers the
most. Then use:

    tidemark repair index      when the index is damaged or lacks packs
    tidemark repair packs      to save what is readable in damaged packs, and to list the lost files
    tidemark repair snapshots  to replace snapshots that lost files by copies without those files

Each can be interrupted at any time, can run beside backups, and has --dry-run.`,
	}, "index, packs or snapshots", a.repairIndexCommand(), a.repairPacksCommand(), a.repairSnapshotsCommand())
}

// repairing runs a repair on the repository, with a ledger that counts the transfer.
func (a *app) repairing(ctx context.Context, dryRun bool, do func(*repo.Repository, repo.SessionOptions) error) error {
	return a.withRepository(ctx, func(r *repo.Repository) error {
		return do(r, a.brieflyWriting(dryRun))
	})
}

// printLosses prints each lost object, and returns an error if there is one.
func (a *app) printLosses(losses *repair.Losses, advice string) error {
	for _, loss := range losses.List {
		if err := a.print.Print(output.Loss(loss)); err != nil {
			return err
		}
	}
	if losses.Count() == 0 {
		return nil
	}
	verb := "are"
	if losses.Count() == 1 {
		verb = "is"
	}
	return fmt.Errorf("%s of snapshots %s lost: %s", human.Plural(losses.Count(), "object"), verb, advice)
}

func (a *app) repairIndexCommand() *cobra.Command {
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "index [flags]",
		Short: "Rebuild the index from the packs",
		Long: `Compares the index with the table in each pack, and writes new index files for packs that the index lacks or
describes wrongly, and for those of damaged index files. A pack whose own table is damaged is read frame by frame. Packs
that the index names and that are missing or truncated are marked: the next backup stores what it needs of them again.

The next 'tidemark prune' removes replaced index files.`,
		Example: `  tidemark repair index --dry-run`,
	}, func(ctx context.Context, _ []string) error {
		return a.repairing(ctx, dry, func(r *repo.Repository, opt repo.SessionOptions) error {
			res, err := repair.Index(ctx, r, opt)
			if res != nil {
				err = errors.Join(err, a.print.Print(output.RepairedIndex(res)))
			}
			if err != nil {
				return err
			}
			if lost := uint64(len(res.Absent) + len(res.Lost)); lost > 0 {
				return fmt.Errorf("%s missing or not whole: run 'tidemark backup' of every source, then 'tidemark repair packs'",
					human.Plural(lost, "pack"))
			}
			return nil
		})
	}, options.GroupPolicy)
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "change nothing, only report what would be done")
	return c
}

func (a *app) repairPacksCommand() *cobra.Command {
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "packs [flags] [ID...]",
		Short: "Save the readable data of damaged packs",
		Long: `Reads the packs that are marked as missing or damaged ('tidemark check --read-data' finds and marks them),
stores their readable data in new packs, and lists the lost files of each snapshot. IDs, or prefixes of IDs, select some
of the packs.

A damaged pack stays in quarantine: no backup relies on it, 'tidemark check' reports it, and 'tidemark prune' removes it
once no snapshot needs data that only this pack has. The exit code is 1 if data is lost.`,
		Example: `  tidemark check --read-data
  tidemark repair packs --dry-run`,
		Args: cobra.ArbitraryArgs,
	}, func(ctx context.Context, ids []string) error {
		return a.repairing(ctx, dry, func(r *repo.Repository, opt repo.SessionOptions) error {
			res, err := repair.Packs(ctx, r, ids, opt)
			if err != nil {
				return err
			}
			err = a.printLosses(&res.Losses, "back up what still exists, then run 'tidemark repair snapshots'")
			return errors.Join(a.print.Print(output.RepairedPacks(res)), err)
		})
	}, options.GroupPolicy, options.GroupCompression)
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "change nothing, only report what would be done")
	return c
}

func (a *app) repairSnapshotsCommand() *cobra.Command {
	var dry, drop bool
	c := a.command(&cobra.Command{
		Use:   "snapshots [flags]",
		Short: "Replace snapshots that lost files",
		Long: `Searches all snapshots for lost data, and replaces each affected snapshot by a new one with the same time,
host, tags and paths. In the new snapshot lost files keep their names and are marked as not readable; everything else is
unchanged. Readable data of damaged packs is stored again. The original is removed only after the new snapshot was read
back.

A snapshot that cannot be read at all stays unless --drop is given. Run 'tidemark backup' of every source first: data
that it stores again is not lost.`,
		Example: `  tidemark repair snapshots --dry-run
  tidemark repair snapshots --drop`,
	}, func(ctx context.Context, _ []string) error {
		return a.repairing(ctx, dry, func(r *repo.Repository, opt repo.SessionOptions) error {
			res, err := repair.Snapshots(ctx, r, repair.SnapshotOptions{SessionOptions: opt, Drop: drop})
			for _, loss := range res.Losses.List {
				err = errors.Join(err, a.print.Print(output.Loss(loss)))
			}
			err = errors.Join(err, a.print.Print(output.RepairedSnapshots(res)))
			if err == nil && slices.ContainsFunc(res.Replaced, func(s repair.Replaced) bool { return s.Kept }) {
				err = errors.New("some snapshots cannot be read at all: remove them with 'tidemark repair snapshots --drop'")
			}
			return err
		})
	}, options.GroupPolicy, options.GroupCompression)
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "change nothing, only report what would be done")
	c.Flags().BoolVar(&drop, "drop", false, "remove snapshots that cannot be read at all")
	return c
}
