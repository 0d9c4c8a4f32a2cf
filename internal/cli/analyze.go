package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

type analyzeFlags struct {
	filter           repo.Filter
	exclude          patternLists
	all, old, forget bool
	rows             int
}

func (f *analyzeFlags) register(flags *pflag.FlagSet) {
	filterFlags(flags, &f.filter)
	f.exclude.register(flags, "exclude", "what only objects that match the pattern need")
	flags.BoolVar(&f.all, "all", false, "what all snapshots need")
	flags.BoolVar(&f.old, "old", false, "what only older snapshots need: not the newest of a host and paths")
	flags.BoolVar(&f.forget, "forget", false, "what only the named snapshots need, and what a prune without them frees")
	flags.IntVar(&f.rows, "rows", 20, "a file or folder is listed if it has one part in n of the sum")
}

func (a *app) analyzeCommand() *cobra.Command {
	f := &analyzeFlags{}
	c := a.command(&cobra.Command{
		Use:   "analyze [flags] [SNAPSHOT...]",
		Short: "Show which files and folders take the space",
		Long: `Shows what the newest snapshot added: files and folders with data that the one before does not need. With one
SNAPSHOT, what that one added; with two, what the second needs and the first does not. With --all, --old or --forget,
which files and folders need the data of snapshots. With --exclude, what leaving them out would save: in the newest
snapshot, in the named ones, or in all with --all.

Sizes are as stored, after deduplication and compression. Each part counts once, for the first path that needs it. A
folder does not include what has a line of its own; what is too small for a line counts in the folder above.`,
		Example: `  tidemark analyze
  tidemark analyze latest~7 latest
  tidemark analyze --forget 4f3a90b1 9c1d22aa
  tidemark analyze --all --exclude '*.iso'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		set, _, err := f.exclude.compile("exclude", a.Env)
		if err != nil {
			return err
		}
		if err := f.check(args, set); err != nil {
			return err
		}
		return a.withRepository(ctx, func(r *repo.Repository) error { return a.analyze(ctx, r, f, args, set) })
	}, options.GroupPolicy)
	f.register(c.Flags())
	return c
}

// check refuses flags and arguments that do not go together.
func (f *analyzeFlags) check(args []string, set *rules.Set) error {
	switch questions := several(f.all && set == nil, f.old, f.forget, set != nil); {
	case questions > 1:
		return usagef("--old, --forget and --exclude are different questions, and --all goes with --exclude only")
	case f.forget && len(args) == 0:
		return usagef("--forget: name the snapshots")
	case (f.all || f.old) && len(args) > 0:
		return usagef("--all and --old are about all snapshots: leave out their names")
	case questions == 0 && len(args) > 2:
		return usagef("name two snapshots: from the first to the second")
	case f.rows < 1:
		return usagef("--rows %d: write a number, 1 or more", f.rows)
	}
	return nil
}

func (a *app) analyze(ctx context.Context, r *repo.Repository, f *analyzeFlags, args []string, set *rules.Set) error {
	listed, err := a.selectSnapshots(ctx, r, nil, f.filter)
	if err != nil {
		return err
	}
	var named []repo.Listed
	switch {
	case f.all || f.old:
	case len(args) == 0:
		named, err = a.selectSnapshots(ctx, r, []string{"latest"}, f.filter)
	default:
		named, err = a.selectSnapshots(ctx, r, args, f.filter)
	}
	if err != nil {
		return err
	}
	out := &output.Analysis{Rules: set}
	switch {
	case f.all:
		out.About, out.Of = output.Needed, listed
	case f.old:
		out.About, out.Of = output.OnlyOld, listed
		out.Besides = newestOfEach([]output.Snapshots{{List: listed}}, 1)[0].List
		out.Of = slices.DeleteFunc(slices.Clone(listed), func(s repo.Listed) bool { return has(out.Besides, s.ID) })
	case f.forget:
		out.About, out.Of = output.OnlyNamed, named
	case set != nil:
		out.About, out.Of = output.Needed, named
	case len(named) == 2 && named[0].ID == named[1].ID:
		return usagef("both names mean snapshot %s: name two snapshots", named[0].ID.Short())
	case len(named) == 2:
		out.About, out.Besides, out.Of = output.Added, named[:1], named[1:]
	default:
		out.About, out.Of, out.Besides = output.Added, named, parentOf(named[0], listed)
	}
	return a.answer(ctx, r, f, out)
}

func has(list []repo.Listed, id format.ID) bool {
	return slices.ContainsFunc(list, func(s repo.Listed) bool { return s.ID == id })
}

// parentOf returns the snapshot that s was compared with, else the one before of the same host and paths; none if s is
// the first.
func parentOf(s repo.Listed, listed []repo.Listed) (parent []repo.Listed) {
	for _, l := range listed {
		switch {
		case l.ID == s.Snapshot.Parent:
			return []repo.Listed{l}
		case l.ID == s.ID:
			return parent
		case l.Snapshot.Host == s.Snapshot.Host && slices.Equal(l.Snapshot.Asked(), s.Snapshot.Asked()):
			parent = []repo.Listed{l}
		}
	}
	return parent
}

// answer counts and prints.
func (a *app) answer(ctx context.Context, r *repo.Repository, f *analyzeFlags, out *output.Analysis) error {
	opt := prune.Options{Scratch: a.cacheFolder(r)}
	q := prune.Question{Of: idsOf(out.Of), Besides: idsOf(out.Besides), Excluded: out.Rules, Rows: f.rows}
	if f.forget {
		all, err := r.Snapshots(ctx)
		if err != nil {
			return err
		}
		for _, l := range all {
			if !slices.Contains(q.Of, l.ID) {
				q.Besides = append(q.Besides, l.ID)
			}
		}
	}
	found, err := prune.Analyze(ctx, r, opt, q)
	if err != nil {
		return err
	}
	out.Analysis = found
	if f.forget {
		limits := pruneFlags{maxUnused: defaultUnused}
		planned, err := limits.options(a)
		if err != nil {
			return err
		}
		planned.Scratch = opt.Scratch
		if out.Plan, err = prune.Forecast(ctx, r, planned, q.Of); err != nil {
			return err
		}
	}
	return a.print.Print(out)
}

func idsOf(list []repo.Listed) (ids []format.ID) {
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}
