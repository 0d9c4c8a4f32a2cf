package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
)

type forgetFlags struct {
	filter      repo.Filter
	policy      forget.Policy // Doubted: also after a backup that is incomplete
	words       string        // the policy in words; "" for none
	thin        bool          // it applies also to snapshots that it spares otherwise
	groupBy     string
	stored      bool
	prune, undo bool
	after       pruneFlags // its dryRun is that of both
}

func (f *forgetFlags) register(flags *pflag.FlagSet) {
	filterFlags(flags, &f.filter)
	exactFlag(flags, &f.filter)
	registerKeep(flags, &f.policy)
	flags.StringVar(&f.words, "keep", "",
		`policy in words; time-machine, or such as "last 3 hourly 24 daily 30 weekly 520 within 36h"`)
	flags.BoolVar(&f.thin, "thin", false, "apply --keep to manual and tagged ones too")
	flags.BoolVar(&f.policy.Doubted, "force", false, "remove snapshots even if the newest one may lack data")
	flags.Var(tagLists(&f.policy.Tags), keepTag, "keep those with all tags of the list a,b; '' keeps those without tags; "+
		"repeatable")
	flags.StringVarP(&f.groupBy, "group-by", "g", "host,paths", "apply it to each group; a list of host, paths, tags")
	flags.BoolVar(&f.stored, "by-stored-time", false,
		"use the time at which the target stored a snapshot, not the time recorded in it")
	flags.BoolVarP(&f.after.dryRun, "dry-run", "n", false, "remove nothing, report what would be removed")
	flags.BoolVar(&f.undo, "undo", false, "bring back the forgotten snapshots of these IDs")
	flags.BoolVar(&f.prune, "prune", false, "prune afterwards; also if no snapshot was removed")
	f.after.limits(flags)
	help.Rare(flags, "force", "by-stored-time", "max-unused", "exclusive", keepTag)
}

// keepPrefix starts the name of each flag that keeps snapshots.
const keepPrefix = "keep-"

// keepTag is the flag that keeps snapshots by tags.
const keepTag = keepPrefix + "tag"

// registerKeep adds the flags that set the policy p, all but keepTag.
func registerKeep(flags *pflag.FlagSet, p *forget.Policy) {
	count := func(to *int, name, what string) {
		flags.Var(options.Flag(to, "n", forget.ParseCount, func(n int) string {
			if n < 0 {
				return "unlimited"
			}
			return strconv.Itoa(n)
		}), keepPrefix+name, what)
	}
	period := func(to *forget.Period, name, what string) {
		flags.Var(options.Flag(to, "time", forget.ParsePeriod, forget.Period.String), keepPrefix+name, what)
	}
	count(&p.Last, "last", "keep the newest n snapshots, or unlimited")
	period(&p.Within, "within", "keep all of this time before the newest; such as 1y6m, 2w or 36h")
	for _, s := range forget.AllSpans() {
		count(&p.Newest[s], s.String(),
			"keep the newest of each of n "+s.Noun()+"s; "+s.Noun()+"s without a snapshot do not count; or unlimited")
		period(&p.Recent[s], forget.WithinPrefix+s.String(),
			"keep the newest of each "+s.Noun()+" from this time before the newest one")
		help.Rare(flags, keepPrefix+forget.WithinPrefix+s.String())
	}
}

// keepGiven reports whether any flag of the policy was given.
func keepGiven(flags *pflag.FlagSet) (given bool) {
	flags.Visit(func(f *pflag.Flag) { given = given || strings.HasPrefix(f.Name, keepPrefix) })
	return given
}

func (a *app) forgetCommand() *cobra.Command {
	f := &forgetFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "forget [flags] [SNAPSHOT...]",
		Short: "Remove snapshots by a policy, or by their IDs",
		Long: `Removes the snapshots that no --keep option keeps, for each host and set of paths separately.

--host, --path and --tag select the snapshots that the policy applies to; all others stay. The newest snapshot of a
group is never removed. Snapshots dated in the future (wrong clock) are kept and do not count towards any limit.
Snapshots with the tag 'protected' are kept too: a backup creates one when files changed on disk without a new change
time. So is the newest snapshot that holds files of a source. A partial snapshot of a first backup is kept until whole
ones that are newer have all sources it holds without a failure, and none of these is missing, empty or much smaller.

If the newest snapshot of a group is incomplete, or a source in it is missing, empty or much smaller than before,
nothing is removed, since an older one may hold the only copy (--force removes all the same).

A policy in words (--keep) thins what jobs of the service made. Snapshots that were made by hand or have tags stay, and
do not count towards its limits; --thin applies it to them, too.

--by-stored-time uses the time at which the target stored a snapshot, not the time recorded in it. It is for
repositories to which untrusted clients may add: they can record any time in a snapshot. Use it with --keep-daily,
--keep-within and the like; --keep-last counts snapshots, so such a client could push the good ones out.

Snapshots named by their IDs are removed regardless of any policy, including the last one and damaged ones. If a
snapshot cannot be read, a policy keeps it and applies to the others; nothing is pruned, and the exit code is 1.

The data of removed snapshots stays in the repository until 'tidemark prune' or --prune deletes it. --prune also prunes
if no snapshot was removed, since an earlier prune may have left data for later.

Until then --undo brings snapshots back, under new IDs; 'tidemark snapshots --forgotten' lists them. It brings back all
of a snapshot, or refuses. On the machine that made them, this also works for snapshots whose files another program has
deleted. No prune of that machine removes anything before they are brought back, or forgotten by their IDs.`,
		Example: `  tidemark forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --prune
  tidemark forget --dry-run --keep-within 3m
  tidemark forget --keep time-machine
  tidemark forget 4f3a90b1
  tidemark forget --undo 4f3a90b1`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		p, err := f.rules(c.Flags())
		if err != nil {
			return err
		}
		switch {
		case f.undo && (len(args) == 0 || f.prune || !p.Empty()):
			return usagef("--undo needs the IDs of forgotten snapshots, and neither --prune nor a policy")
		case len(args) > 0 && !p.Empty():
			return usagef("name snapshots or give a policy, not both: named snapshots are removed regardless of any policy")
		case len(args) == 0 && p.Empty() && keepGiven(c.Flags()):
			return usagef("this policy keeps no snapshot at all: give at least one --keep option a number above 0; to drop " +
				"snapshots all the same, name them by their IDs")
		case len(args) == 0 && p.Empty():
			return usagef("nothing says which snapshots to keep: give at least one --keep option, such as --keep-daily 7, or " +
				"name the snapshots to drop by their IDs")
		}
		for _, ref := range args {
			if !repo.IsID(ref) {
				return usagef("%q: name the snapshot by its ID, four digits or more: 'tidemark snapshots' shows 8", ref)
			}
		}
		if f.undo {
			return a.undoForget(ctx, f, args)
		}
		if err := checkExact(&f.filter); err != nil {
			return err
		}
		by, err := parseGroupBy(f.groupBy)
		after, err2 := f.after.options(a) // also without --prune
		if err := cmp.Or(err, err2); err != nil {
			return err
		}
		return a.forget(ctx, f, p, by, args, after)
	}, options.GroupPolicy)
	f.register(c.Flags())
	return c
}

// rules returns the policy of the flags.
func (f *forgetFlags) rules(flags *pflag.FlagSet) (forget.Policy, error) {
	p := f.policy
	switch {
	case !flags.Changed("keep") && f.thin:
		return p, usagef("--thin needs --keep: the other --keep options apply to all snapshots")
	case !flags.Changed("keep"):
		return p, nil
	case keepGiven(flags):
		return p, usagef("--keep and the other --keep options exclude each other: choose one")
	}
	words, err := forget.ParsePolicy(f.words)
	if err != nil {
		return p, usagef("--keep: %w", err)
	}
	words.Spare, words.Doubted = !f.thin, p.Doubted
	return *words, nil
}

func (a *app) forget(ctx context.Context, f *forgetFlags, p forget.Policy, by []string, refs []string,
	after prune.Options) error {
	return a.withRepository(ctx, func(r *repo.Repository) error {
		result := output.Forgotten{DryRun: f.after.dryRun, Prune: f.prune, Named: len(refs) > 0}
		var unread uint64
		var err error
		if result.Named {
			result.Groups, err = named(ctx, r, refs)
		} else {
			result.Groups, unread, err = a.evaluated(ctx, r, f, p, by)
		}
		if err != nil {
			return err
		}
		var failed error
		if !f.after.dryRun {
			result.Dropped, result.Undo, failed = forget.Drop(ctx, r, result.Drop())
		}
		if err := errors.Join(failed, a.print.Print(&result)); err != nil {
			return err
		}
		switch {
		case unread > 0 && f.prune && !f.after.dryRun: // which would refuse, and say no more than this
			return fmt.Errorf("nothing was pruned, as %s %w", human.Plural(unread, "snapshot"), forget.ErrUnread)
		case unread > 0:
			return fmt.Errorf("%s %w", human.Plural(unread, "snapshot"), forget.ErrUnread)
		case f.prune && f.after.dryRun && len(result.Drop()) > 0:
			a.print.Note("a dry run cannot report what a prune would delete afterwards, since these snapshots still exist")
		case f.prune: // also if no snapshot was removed, since an earlier run may have left data for later
			return a.pruneOpen(ctx, r, after, f.after.maxUnused)
		}
		return nil
	})
}

// undoForget brings forgotten snapshots back.
func (a *app) undoForget(ctx context.Context, f *forgetFlags, refs []string) error {
	return a.withRepository(ctx, func(r *repo.Repository) error {
		back, err := rewrite.Undo(ctx, r, refs, rewrite.Options{SessionOptions: a.brieflyWriting(f.after.dryRun)})
		if err != nil {
			return err
		}
		return a.print.Print(&output.Rewritten{Verb: output.Undo, List: back, DryRun: f.after.dryRun})
	})
}

// evaluated applies a policy to each group of the readable snapshots and counts the unreadable ones.
func (a *app) evaluated(ctx context.Context, r *repo.Repository, f *forgetFlags, p forget.Policy, by []string) (
	groups []output.ForgottenGroup, unread uint64, err error,
) {
	list, unread, err := a.readable(ctx, r, f.filter)
	now := time.Now()
	var all [][]forget.Verdict
	for _, g := range groupSnapshots(list, by) {
		if f.stored {
			g.List = forget.ByStored(g.List)
		}
		verdicts := p.Apply(g.List, now)
		all = append(all, verdicts)
		groups = append(groups, output.ForgottenGroup{Heading: g.Heading, Verdicts: verdicts, Waits: p.Waits(verdicts)})
	}
	forget.ReplacePartial(all...)
	return groups, unread, err
}

// named returns the snapshots of refs as one group without any to keep.
func named(ctx context.Context, r *repo.Repository, refs []string) ([]output.ForgottenGroup, error) {
	if slices.Contains(refs, repo.Latest) {
		return nil, usagef("%q: name the snapshot by its ID; 'tidemark snapshots --latest 1' shows it", repo.Latest)
	}
	list, err := forget.Named(ctx, r, refs)
	g := output.ForgottenGroup{}
	for _, l := range list {
		g.Verdicts = append(g.Verdicts, forget.Verdict{Listed: l})
	}
	return []output.ForgottenGroup{g}, err
}
