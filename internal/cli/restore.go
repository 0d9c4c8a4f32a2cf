package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/cli/owners"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/processors"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/restore"
)

type restoreFlags struct {
	snapshots              filterFlags
	patterns               patternFlags
	target, overwrite      string
	remove, dryRun, verify bool
	byName                 bool
}

func (f *restoreFlags) register(flags *pflag.FlagSet) {
	f.snapshots.register(flags)
	f.patterns.register(flags)
	flags.StringVarP(&f.target, "target", "t", "", "directory to restore to; / puts everything back in its place")
	flags.StringVar(&f.overwrite, "overwrite", "always", "what exists is replaced always (unless its content is the same), "+
		"if-changed (size or time differ), if-newer (the snapshot's is newer) or never")
	flags.BoolVar(&f.remove, "delete", false, "remove what is in a restored directory and not in the snapshot")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "do everything but write")
	flags.BoolVar(&f.verify, "verify", false, "read all files back when they are written")
	flags.BoolVar(&f.byName, "by-name", false, "give objects to the users and groups of the same name here (default: same number)")
	flags.Bool("sparse", true, "always so: holes are never written")
	_ = flags.MarkHidden("sparse")
}

func (a *app) restoreCommand() *cobra.Command {
	f := &restoreFlags{}
	c := a.command(&cobra.Command{
		Use:   "restore [flags] SNAPSHOT[:/PATH] --target DIR",
		Short: "Write a snapshot, or a part of it, back to disk",
		Long: `Restores a snapshot to a directory. With a path, the content of that directory lands directly in the target.

Everything is compared with its ID before it is written. A restore that was interrupted goes on where it was when it is
started again: what is there and equal is left alone.

If a snapshot cannot be read, it may be the latest: then "latest" is refused, so that no older state takes the place of newer
files unnoticed, and the newest snapshot that can be read is named. With its ID the command goes on.

--delete removes nothing from directories that are only on the way to what was backed up: of /home, if that was /home/ann,
the snapshot knows nothing else. What a rule left out of the backup is not in the snapshot, and is removed.

What the target cannot hold, such as owners when you are not root, is no failure: it is counted and told at the end, and
for each object with --verbose.`,
		Example: `  tidemark restore latest --target /tmp/back
  tidemark restore 1f3a:/home/ann/docs --target ~/docs --include '*.tex'
  tidemark restore latest --target / --overwrite if-changed`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) error { return a.restore(ctx, f, args[0]) }, options.GroupPolicy)
	// How many read and how many compute is one number here, and nobody scans or uploads.
	parallel := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.Register(parallel, options.GroupParallel)
	for _, name := range []string{"resource-utilization", "memory"} {
		c.Flags().AddFlag(parallel.Lookup(name))
	}
	f.register(c.Flags())
	complete(c, "overwrite", oneOf("always", "if-changed", "if-newer", "never"))
	return c
}

func (a *app) restore(ctx context.Context, f *restoreFlags, argument string) (err error) {
	if f.target == "" {
		return usagef("--target is missing: say where to restore to")
	}
	to := restore.Target{Path: f.target, Delete: f.remove, DryRun: f.dryRun, Verify: f.verify, Gate: a.gate}
	if to.Overwrite, err = restore.ParseOverwrite(f.overwrite); err != nil {
		return &usageError{err}
	}
	take, err := f.patterns.compile(a.Env)
	if err != nil {
		return err
	}
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	found, sub, err := findCertain(ctx, r, argument, f.snapshots.filter())
	if err != nil {
		return err
	}
	to.Apply.ForeignFlags = !strings.HasPrefix(found.Snapshot.System, runtime.GOOS+"/")
	if f.byName {
		to.Owners = owners.ByName(found.Snapshot)
	}
	l := report.NewJob(report.Restore, time.Now)
	a.received.book(l)
	if take == nil && strings.Trim(sub, "/") == "" {
		content := found.Snapshot.Stats.Content
		l.Expect(content.Files+content.Dirs+content.Others, content.Bytes)
	}
	defer a.expose(ctx, "restore", []string{found.ID.String()}, l)()
	stop := a.print.Watch(ctx, l)
	par := a.spec.Parallel(processors.Count(), options.Media{}).Workers
	result, err := restore.Run(ctx, r, restore.Selection{Tree: found.Snapshot.Tree, Sub: sub, Sources: found.Snapshot.Sources, Take: take}, to,
		restore.Parallel{Workers: max(par.Readers, par.Compressors)}, l)
	if err == nil {
		l.Phase(report.Done)
	}
	stop()
	if err != nil {
		return err
	}
	end := &output.Restore{Ledger: l, Target: f.target, DryRun: f.dryRun, Hint: ownersHint(result.Problems),
		Verbose: a.spec.Output().Verbose > 0}
	if err := a.print.Tell(end); err != nil {
		return err
	}
	if failed := l.Objects.Failed.Load(); failed > 0 {
		return fmt.Errorf("%s could not be restored, see above", human.Plural(failed, "object"))
	}
	return nil
}

// ownersHint sums up the most common remark of all: who is not root cannot give files away.
func ownersHint(problems map[string]uint64) string {
	n := problems["owner"]
	if n == 0 || os.Geteuid() == 0 {
		return ""
	}
	return fmt.Sprintf("%s belong to you now instead of their owners, since you are not root.", human.Plural(n, "object"))
}
