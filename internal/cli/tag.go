package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
)

// checkTags returns the change that the flags describe.
func checkTags(c rewrite.TagChange, flags *pflag.FlagSet) (rewrite.TagChange, error) {
	c.Replace = flags.Changed("set")
	if c.Replace && (flags.Changed("add") || flags.Changed("remove")) {
		return c, usagef("--set replaces all tags: give it without --add and --remove")
	}
	if slices.Equal(c.Set, []string{""}) {
		c.Set = nil
	}
	if len(c.Set)+len(c.Add)+len(c.Remove) == 0 && !c.Replace {
		return c, usagef("%w: give --add, --remove or --set", rewrite.ErrNoChange)
	}
	if slices.Contains(slices.Concat(c.Set, c.Add, c.Remove), "") {
		return c, usagef("a tag is empty: write --add a,b, or --set '' alone to remove all tags")
	}
	return c, nil
}

func (a *app) tagCommand() *cobra.Command {
	var filter repo.Filter
	var given rewrite.TagChange
	var dry bool
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "tag [flags] [SNAPSHOT...]",
		Short: "Change the tags of snapshots",
		Long: `Adds, removes or replaces tags of the named snapshots, or of all that match --host, --path and --tag.

A snapshot is never modified: a new one with the other tags takes its place. Its ID changes; time, host, paths and
contents stay. The original is removed only after the new snapshot was read back, so an interrupted run loses nothing;
start it again to finish it.`,
		Example: `  tidemark tag --add keep 4f3a90b1
  tidemark tag --remove nightly --add weekly --tag nightly --host nas
  tidemark tag --set '' latest`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		change, err := checkTags(given, c.Flags())
		if err != nil {
			return err
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			chosen, unread, err := a.chosen(ctx, r, args, filter)
			if err != nil {
				return err
			}
			changed, err := rewrite.Tags(ctx, r, chosen, change, rewrite.Options{SessionOptions: a.brieflyWriting(dry)})
			if err != nil {
				return err
			}
			return errors.Join(a.print.Print(&output.Rewritten{Verb: output.Tag, List: changed, DryRun: dry,
				Forgotten: !dry}), unread)
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().Var(tagList(&given.Set), "set", "replace all tags by these; '' removes all; repeatable, or a list a,b")
	c.Flags().Var(tagList(&given.Add), "add", "add a tag; repeatable, or a list a,b")
	c.Flags().Var(tagList(&given.Remove), "remove", "remove a tag; repeatable, or a list a,b")
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "change nothing, only report what would be done")
	return c
}
