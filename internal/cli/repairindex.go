package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

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
		return a.repairing(ctx, dry, func(r *repo.Repository, opt repair.Options) error {
			res, err := repair.Index(ctx, r, opt)
			if res != nil {
				err = errors.Join(err, a.print.Print(&output.RepairedIndex{IndexResult: res, DryRun: dry}))
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
