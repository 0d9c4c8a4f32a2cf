package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/grouping"
	"github.com/tidemark-backup/tidemark/internal/cli/keep"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

type forgetFlags struct {
	filter  filterFlags
	policy  forget.Policy // but for its tags
	tagged  filterFlags   // of this, only tags
	groupBy string
	dryRun  bool
	prune   bool
	after   pruneFlags
}

func (f *forgetFlags) register(flags *pflag.FlagSet) {
	f.filter.register(flags)
	keep.Register(flags, &f.policy)
	flags.Var(&f.tagged.tags, keep.Tag, "keep those with all tags of the list a,b, or with '' those that have none; may be given several "+
		"times")
	flags.StringVarP(&f.groupBy, "group-by", "g", "host,paths", "apply the policy to each group of equal host, paths, tags (a list of "+
		"these words)")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "drop nothing, only say what would be dropped")
	flags.BoolVar(&f.prune, "prune", false, "prune afterwards, also if nothing was dropped")
	f.after.limits(flags)
}

// shortestDropped is how much of an ID it takes to drop a snapshot. To read one, as much as tells it from the others will do;
// here a digit that was mistyped must not name another.
const shortestDropped = 4

func (a *app) forgetCommand() *cobra.Command {
	f := &forgetFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "forget [flags] [SNAPSHOT...]",
		Short: "Drop snapshots by a policy, or by their IDs",
		Long: `Drops the snapshots that no --keep option keeps; each option keeps some, and one that any of them keeps stays. The
policy is applied to the snapshots of each machine and set of paths by themselves (--group-by), and --host, --path and --tag
choose those that it is applied to at all; the others stay. Of a group of which nothing would be kept, the newest stays.
Snapshots of the future, which a clock that was wrong has made, stay too and take nobody's place.

Snapshots that are named by their IDs are dropped without a policy, also the last one, and also one that is damaged. A
policy leaves one that cannot be read alone: it is applied to the others, nothing is pruned, and the command ends with 1.

What the dropped snapshots needed stays in the repository until 'tidemark prune', or --prune, gives the room back. --prune
prunes also if nothing was dropped: an earlier one may have left what had to wait for others.`,
		Example: `  tidemark forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --prune
  tidemark forget --dry-run --keep-within 3m
  tidemark forget 4f3a90b1`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		p := f.policy
		p.Tags = f.tagged.filter().Tags
		switch {
		case len(args) > 0 && !p.Empty():
			return usagef("name snapshots or give a policy, not both: those that are named are dropped whatever the policy says")
		case len(args) == 0 && p.Empty() && keep.Given(c.Flags()):
			return usagef("%w", forget.ErrNothingKept)
		case len(args) == 0 && p.Empty():
			return usagef("%w", forget.ErrNoPolicy)
		}
		for _, ref := range args {
			if len(ref) < shortestDropped {
				return usagef("%q: to drop a snapshot write at least %d digits of its ID: 'tidemark snapshots' shows 8", ref, shortestDropped)
			}
		}
		by, err := grouping.Parse(f.groupBy)
		if err != nil {
			return &usageError{err}
		}
		if _, err := f.after.options(a); err != nil { // also without --prune
			return err
		}
		return a.forget(ctx, f, p, by, args)
	}, options.GroupPolicy)
	f.register(c.Flags())
	return c
}

func (a *app) forget(ctx context.Context, f *forgetFlags, p forget.Policy, by []grouping.Part, refs []string) (err error) {
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	told := output.Forgotten{DryRun: f.dryRun, Named: len(refs) > 0}
	var unread uint64
	if told.Named {
		told.Groups, err = named(ctx, r, refs)
	} else {
		told.Groups, unread, err = a.judged(ctx, r, f.filter.filter(), p, by)
	}
	if err != nil {
		return err
	}
	if err := a.print.Print(&told); err != nil {
		return err
	}
	if !f.dryRun {
		if _, err = forget.Drop(ctx, r, told.Drop()); err != nil {
			return err
		}
	}
	switch {
	case unread > 0 && f.prune && !f.dryRun: // which would refuse, and say no more than this
		return fmt.Errorf("nothing was pruned, as %s %w", human.Plural(unread, "snapshot"), forget.ErrUnread)
	case unread > 0:
		return fmt.Errorf("%s %w", human.Plural(unread, "snapshot"), forget.ErrUnread)
	case f.prune:
		return a.pruneAfter(ctx, r, f, &told)
	}
	return nil
}

// pruneAfter prunes, whether snapshots were dropped or not: an earlier run may have left what had to wait for others. In a dry
// run those that would be dropped are there still, and a prune that follows them would say what is not so.
func (a *app) pruneAfter(ctx context.Context, r *repo.Repository, f *forgetFlags, told *output.Forgotten) error {
	if f.dryRun && len(told.Drop()) > 0 {
		a.print.Note("what a prune would remove then is not known in a dry run, as these snapshots are there still")
		return nil
	}
	f.after.dryRun = f.dryRun
	return a.pruneOpen(ctx, r, &f.after)
}

// judged applies a policy to each group of the snapshots that can be read, and counts the others.
func (a *app) judged(ctx context.Context, r *repo.Repository, filter repo.Filter, p forget.Policy, by []grouping.Part) (
	groups []output.ForgottenGroup, unread uint64, err error,
) {
	list, unread, err := a.readable(ctx, r, filter)
	now := time.Now()
	for _, g := range grouping.Split(list, by) {
		var members []repo.Listed
		for _, s := range g.List {
			members = append(members, repo.Listed{ID: s.ID, Snapshot: s.Snapshot})
		}
		groups = append(groups, output.ForgottenGroup{Heading: g.Heading, Verdicts: p.Apply(members, now)})
	}
	return groups, unread, err
}

// named is the group of the snapshots that references name: all are to go.
func named(ctx context.Context, r *repo.Repository, refs []string) ([]output.ForgottenGroup, error) {
	list, err := forget.Named(ctx, r, refs)
	g := output.ForgottenGroup{}
	for _, l := range list {
		g.Verdicts = append(g.Verdicts, forget.Verdict{Listed: l})
	}
	return []output.ForgottenGroup{g}, err
}
