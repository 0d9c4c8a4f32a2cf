package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

func (a *app) rewriteCommand() *cobra.Command {
	var filter repo.Filter
	var exclude patternLists
	var opt rewrite.Options
	c := a.command(&cobra.Command{
		Use:   "rewrite [flags] [SNAPSHOT...]",
		Short: "Exclude files from existing snapshots",
		Long: `Saves copies of the named snapshots, or of all that match --host, --path and --tag, without the objects that
match the patterns. Patterns are those of 'tidemark backup', and match paths as 'tidemark ls' shows them. Snapshots
without such an object stay as they are. A copy has the time, host, paths and tags of its original and shares its data.

The originals stay unless --forget is given; then each is removed after its copy was read back. The data of the left-out
files stays in the repository until then, and until the next 'tidemark prune'. An interrupted run loses nothing; start
it again to finish it.`,
		Example: `  tidemark rewrite --dry-run --exclude '*.iso'
  tidemark rewrite --forget --exclude /home/ann/.cache 4f3a90b1 9c1d22aa`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		set, _, err := exclude.compile("exclude", a.Env)
		switch {
		case err != nil:
			return err
		case set == nil:
			return usagef("%w: give --exclude or another pattern", rewrite.ErrNoChange)
		}
		return a.rewrite(ctx, filter, set, opt, args)
	}, options.GroupPolicy, options.GroupCompression)
	filterFlags(c.Flags(), &filter)
	exclude.register(c.Flags(), "exclude", "leave out objects that match the pattern")
	c.Flags().BoolVar(&opt.Forget, "forget", false, "remove the originals after the new snapshots were read back")
	c.Flags().BoolVarP(&opt.DryRun, "dry-run", "n", false, "change nothing, only report what would be left out")
	return c
}

func (a *app) rewrite(ctx context.Context, filter repo.Filter, set *rules.Set, opt rewrite.Options,
	args []string) error {
	return a.withRepository(ctx, func(r *repo.Repository) error {
		chosen, unread, err := a.chosen(ctx, r, args, filter)
		if err != nil {
			return err
		}
		each := func(e rewrite.Excluded) error { return a.print.Print(output.LeftOut(&e)) }
		opt.SessionOptions = a.brieflyWriting(opt.DryRun)
		res, err := rewrite.Exclude(ctx, r, chosen, set, each, opt)
		if err != nil {
			return err
		}
		err = a.print.Print(&output.Rewritten{Verb: output.Rewrite, List: res.Changed, Snapshots: res.Snapshots,
			Empty: len(res.Empty), DryRun: opt.DryRun, Forgotten: opt.Forget && !opt.DryRun})
		for _, id := range res.Empty {
			err = errors.Join(err, fmt.Errorf("snapshot %s: %w", id.Short(), rewrite.ErrEmpty))
		}
		return errors.Join(err, unread)
	})
}

// brieflyWriting returns the options of a session without a report at its end.
func (a *app) brieflyWriting(dry bool) (s repo.SessionOptions) {
	l := report.NewJob(report.Check, time.Now)
	a.place.Intake.Attach(l)
	a.writes(&s, l)
	s.DryRun = dry
	return s
}

// chosen returns the named snapshots, each once, or all that match the filter. unread is an error if some of these
// cannot be read.
func (a *app) chosen(ctx context.Context, r *repo.Repository, refs []string, filter repo.Filter) (list []repo.Listed,
	unread, err error) {
	for _, ref := range refs {
		found, sub, err := find(ctx, r, ref, filter)
		switch {
		case err != nil:
			return nil, nil, err
		case sub != "":
			return nil, nil, usagef("%q: name a whole snapshot, without a path", ref)
		}
		if !slices.ContainsFunc(list, func(l repo.Listed) bool { return l.ID == found.ID }) {
			list = append(list, found)
		}
	}
	if len(refs) > 0 {
		return list, nil, nil
	}
	list, bad, err := a.readable(ctx, r, filter)
	if bad > 0 {
		unread = fmt.Errorf("%s could not be read and stayed as it is: 'tidemark check' shows what is wrong",
			human.Plural(bad, "snapshot"))
	}
	return list, unread, err
}
