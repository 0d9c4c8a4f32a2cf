package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
)

type forgetFlags struct {
	filter  filterFlags
	counts  [6]count // in the order of forgetCounts
	within  string
	keep    filterFlags // of this, only tags
	groupBy string
	dryRun  bool
	prune   bool
	after   pruneFlags
}

// count is a number of snapshots, or all of them.
type count int

func (c *count) String() string {
	if *c < 0 {
		return "unlimited"
	}
	return strconv.Itoa(int(*c))
}

func (c *count) Type() string { return "n" }

func (c *count) Set(text string) error {
	if text == "unlimited" {
		*c = -1
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("%q: write a number, or unlimited", text)
	}
	*c = count(n)
	return nil
}

func (f *forgetFlags) register(flags *pflag.FlagSet) {
	f.filter.register(flags)
	for i, span := range [...]string{"", "hour", "day", "week", "month", "year"} {
		name, usage := "keep-last", "keep the newest n"
		if span != "" {
			name = map[string]string{"hour": "keep-hourly", "day": "keep-daily", "week": "keep-weekly", "month": "keep-monthly",
				"year": "keep-yearly"}[span]
			usage = "keep the newest of each of the last n " + span + "s that have one"
		}
		flags.Var(&f.counts[i], name, usage+", or unlimited")
	}
	flags.StringVar(&f.within, "keep-within", "", "keep all that are no older than this before the newest, such as 1y6m, 2w or 36h")
	flags.StringArrayVar(&f.keep.tags, "keep-tag", nil, "keep those with all tags of the list a,b; may be given several times")
	flags.StringVarP(&f.groupBy, "group-by", "g", "host,paths", "apply the policy to each group of equal host, paths, tags (a list of "+
		"these words)")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "drop nothing, only say what would be dropped")
	flags.BoolVar(&f.prune, "prune", false, "prune afterwards, if anything was dropped")
	f.after.limits(flags)
}

func (f *forgetFlags) policy() (forget.Policy, error) {
	p := forget.Policy{Last: int(f.counts[0]), Hourly: int(f.counts[1]), Daily: int(f.counts[2]), Weekly: int(f.counts[3]),
		Monthly: int(f.counts[4]), Yearly: int(f.counts[5]), Tags: f.keep.filter().Tags}
	if f.within != "" {
		var err error
		if p.Within, err = forget.ParsePeriod(f.within); err != nil {
			return p, usagef("--keep-within: %w", err)
		}
	}
	return p, nil
}

func (a *app) forgetCommand() *cobra.Command {
	f := &forgetFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "forget [flags] [SNAPSHOT...]",
		Short: "Drop snapshots by a policy, or by their IDs",
		Long: `Drops the snapshots that no --keep option keeps; each option keeps some, and one that any of them keeps stays. The
policy is applied to the snapshots of each machine and set of paths by themselves (--group-by), and --host, --path and --tag
choose those that it is applied to at all; the others stay. The newest snapshot of a group always stays.

Snapshots that are named by their IDs are dropped without a policy, also the last one, and also one that is damaged.

What the dropped snapshots needed stays in the repository until 'tidemark prune', or --prune, gives the room back.`,
		Example: `  tidemark forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --prune
  tidemark forget --dry-run --keep-within 3m
  tidemark forget 4f3a90b1`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		p, err := f.policy()
		if err != nil {
			return err
		}
		switch {
		case len(args) > 0 && !p.Empty():
			return usagef("name snapshots or give a policy, not both: those that are named are dropped whatever the policy says")
		case len(args) == 0 && p.Empty() && keeps(c.Flags()):
			return usagef("%w", forget.ErrNothingKept)
		case len(args) == 0 && p.Empty():
			return usagef("%w", forget.ErrNoPolicy)
		}
		by, err := parseGrouping(f.groupBy)
		if err != nil {
			return err
		}
		if _, err := f.after.options(a); f.prune && err != nil {
			return err
		}
		return a.forget(ctx, f, p, by, args)
	}, options.GroupPolicy)
	f.register(c.Flags())
	return c
}

// keeps reports whether any option of a policy was given.
func keeps(flags *pflag.FlagSet) (given bool) {
	flags.Visit(func(f *pflag.Flag) { given = given || len(f.Name) > 5 && f.Name[:5] == "keep-" })
	return given
}

func (a *app) forget(ctx context.Context, f *forgetFlags, p forget.Policy, by []keyer, refs []string) (err error) {
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var drop []repo.Listed
	if len(refs) > 0 {
		if drop, err = forget.Named(ctx, r, refs); err != nil {
			return err
		}
		if err := a.print.Print(&output.Forgotten{Named: true, Groups: named(drop), DryRun: f.dryRun}); err != nil {
			return err
		}
	} else {
		list, err := a.selectSnapshots(ctx, r, nil, f.filter.filter())
		if err != nil {
			return err
		}
		told := output.Forgotten{DryRun: f.dryRun}
		for _, g := range group(list, by) {
			var members []repo.Listed
			for _, s := range g.List {
				members = append(members, repo.Listed{ID: s.ID, Snapshot: s.Snapshot})
			}
			verdicts := p.Apply(members, time.Local)
			told.Groups = append(told.Groups, output.ForgottenGroup{Heading: g.Heading, Verdicts: verdicts})
			for _, v := range verdicts {
				if !v.Keep {
					drop = append(drop, v.Listed)
				}
			}
		}
		if err := a.print.Print(&told); err != nil {
			return err
		}
	}
	if f.dryRun {
		return nil
	}
	dropped, err := forget.Drop(ctx, r, drop)
	if err != nil {
		return err
	}
	if !f.prune || len(dropped) == 0 {
		return nil
	}
	return a.pruneOpen(ctx, r, &f.after)
}

func named(list []repo.Listed) []output.ForgottenGroup {
	g := output.ForgottenGroup{}
	for _, l := range list {
		g.Verdicts = append(g.Verdicts, forget.Verdict{Listed: l})
	}
	return []output.ForgottenGroup{g}
}
