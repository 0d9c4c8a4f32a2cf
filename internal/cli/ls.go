package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func (a *app) lsCommand() *cobra.Command {
	var filter repo.Filter
	var long, recursive, exact bool
	c := a.command(&cobra.Command{
		Use:   "ls [flags] SNAPSHOT[:/PATH] [DIR...]",
		Short: "List the contents of a snapshot",
		Long: `Lists the direct entries of the snapshot's sources, or of the directories that are named. With --recursive it
lists their subdirectories too; for a snapshot without a directory that is all there is in it.

--long shows mode, owners, size and time, and for a file that changed while it was read, how the backup handled it.`,
		Example: `  tidemark ls latest
  tidemark ls -R latest
  tidemark ls --long latest:/home/ann`,
		Args:              arguments(1, 0),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			found, sub, err := find(ctx, r, args[0], filter)
			if err != nil {
				return err
			}
			if err := a.print.Report(output.Snapshot(&found)); err != nil {
				return err
			}
			dirs, named := args[1:], true
			if len(dirs) == 0 {
				dirs = []string{""}
				if !recursive && sub == "" {
					dirs, named = found.Snapshot.Sources, false
				}
			}
			for _, dir := range dirs {
				show := func(path string, n *tree.Node) error {
					return a.print.Print(&output.Node{Path: path, Node: n, In: found.Snapshot, Long: long, Exact: exact})
				}
				err := browse.List(ctx, r.LoadBlob, found.Snapshot.Tree, join(sub, dir), recursive, show)
				missing := errors.Is(err, browse.ErrNotFound) || errors.Is(err, browse.ErrNotDir)
				if err != nil && (named || !missing) { // the snapshot may lack a source of its own
					return withAbsolute(err, cmp.Or(sub, dir))
				}
			}
			return nil
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().BoolVarP(&long, "long", "l", false, "show mode, owners, size and time")
	c.Flags().BoolVarP(&recursive, "recursive", "R", false, "list subdirectories too")
	c.Flags().BoolVar(&exact, "bytes", false, "with --long: show exact sizes in bytes")
	a.pastFlag(c)
	return c
}
