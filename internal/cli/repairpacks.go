package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
)

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
		return a.repairing(ctx, dry, func(r *repo.Repository, opt repair.Options) error {
			res, err := repair.Packs(ctx, r, ids, opt)
			if err != nil {
				return err
			}
			err = a.printLosses(&res.Losses, "back up what still exists, then run 'tidemark repair snapshots'")
			return errors.Join(a.print.Print(&output.RepairedPacks{PacksResult: res, DryRun: dry}), err)
		})
	}, options.GroupPolicy, options.GroupCompression)
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "change nothing, only report what would be done")
	return c
}
