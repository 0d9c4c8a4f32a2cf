package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func (a *app) lsCommand() *cobra.Command {
	var filter filterFlags
	var long, recursive, exact bool
	c := a.command(&cobra.Command{
		Use:   "ls [flags] SNAPSHOT[:/PATH] [DIR...]",
		Short: "List the contents of a snapshot",
		Long: `Lists all objects in a snapshot, or in directories of it. For a directory named after the snapshot, only its
direct entries are listed unless --recursive is given.

--long shows mode, owners, size and time, and for a file that changed while it was read, how the backup handled it.`,
		Example: `  tidemark ls latest
  tidemark ls --long latest:/home/ann`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) (err error) {
		r, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		found, sub, err := find(ctx, r, args[0], filter.filter())
		if err != nil {
			return err
		}
		if err := a.print.Report(&output.Snapshot{ID: found.ID, Snapshot: found.Snapshot}); err != nil {
			return err
		}
		dirs := args[1:]
		if len(dirs) == 0 {
			dirs, recursive = []string{""}, recursive || sub == ""
		}
		names := output.Names{Users: found.Snapshot.Users, Groups: found.Snapshot.Groups}
		for _, dir := range dirs {
			show := func(path string, n *tree.Node) error {
				return a.print.Print(&output.Node{Path: path, Node: n, Names: names, Long: long, Exact: exact})
			}
			err := browse.List(ctx, r, found.Snapshot.Tree, join(sub, dir), recursive, show)
			if err != nil {
				return err
			}
		}
		return nil
	}, options.GroupPolicy)
	filter.register(c.Flags())
	c.Flags().BoolVarP(&long, "long", "l", false, "show mode, owners, size and time")
	c.Flags().BoolVar(&recursive, "recursive", false, "list subdirectories too")
	c.Flags().BoolVar(&exact, "bytes", false, "with --long: show exact sizes in bytes")
	return c
}
