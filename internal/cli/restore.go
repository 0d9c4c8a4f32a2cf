package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

type restoreFlags struct {
	snapshots repo.Filter
	// what is restored; the options with the same names select what is backed up
	include, exclude patternLists
	to               restore.Target // as far as flags describe it
	overwrite        string
	byName, sparse   bool
	answered         bool     // the overwrite rule was named: no question
	doubt            string   // snapshot that is taken for the latest while others cannot be read; "": none
	dsmc             struct { // set by the commands of IBM's client
		// in place of an argument
		choose func(context.Context, *repo.Repository) (found repo.Listed, sub string, err error)
		take   func(at string, typ tree.Type) (take, enter bool) // in place of patterns
		kept   uint64                                            // objects left as they were
		prompt bool                                              // ask before objects are replaced
	}
}

func (f *restoreFlags) register(flags *pflag.FlagSet) {
	filterFlags(flags, &f.snapshots)
	f.include.register(flags, "include", "restore only objects that match the pattern")
	f.exclude.register(flags, "exclude", "do not restore objects that match the pattern")
	flags.StringVarP(&f.to.Path, "target", "t", "", "directory to restore to; / restores to the original places")
	flags.StringVar(&f.overwrite, "overwrite", "always", "existing files: always, if-changed, if-newer or never; "+
		"always replaces all whose content differs, if-changed those whose size or time differ, if-newer those that "+
		"are newer in the snapshot")
	flags.BoolVar(&f.to.Delete, "delete", false,
		"remove objects that are not in the snapshot; in restored directories only")
	flags.BoolVarP(&f.to.DryRun, "dry-run", "n", false,
		"do everything except write; --verbose reports for each object what would be done and why")
	flags.BoolVar(&f.to.Verify, "verify", false, "read all files back after writing them")
	flags.BoolVar(&f.byName, "by-name", false, "restore owners by name; default: by number")
	flags.BoolVar(&f.sparse, "sparse", true, "holes are never written")
	_ = flags.MarkHidden("sparse")
	help.Topic(flags, options.TopicWhere, "target")
	help.Rare(flags, "by-name")
}

func (a *app) restoreCommand() *cobra.Command {
	f := &restoreFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "restore [flags] SNAPSHOT[:/PATH] --target DIR",
		Short: "Restore a snapshot, or part of it",
		Long: `Restores a snapshot below a directory, each object under its full path; with the target / to where it was.
With a path, the contents of that directory are restored directly into the target.

Existing files are replaced if their content differs. At a terminal, restore asks first if it would replace any, or if
--delete would remove any. Without a terminal, it changes nothing then: it names them and ends with code 1, as a dry
run does. Files whose times differ from the snapshot are read for that. --overwrite answers ahead. What other programs
change during the restore stays, and is reported.

With --overwrite if-newer, a newer object stays whatever its type. If it is in the place of a directory, what the
snapshot has below that is not restored, which is reported as a failure.

All data is verified before it is written. An interrupted restore continues when it is started again: files that are
already equal are not written again.

If a snapshot cannot be read, it may be the newest one. Then "latest" is the newest readable one, with a warning, and
--overwrite does not answer ahead: without a terminal, nothing is replaced or removed unless the ID of a snapshot is
given.

--delete removes nothing from directories above the backed-up paths: if only /home/ann was backed up, the rest of /home
stays. Files that a rule excluded from the backup are not in the snapshot, so --delete removes them.

Metadata that the target cannot store, such as owners when you are not root, is no failure: it is counted and reported
at the end, and for each object with --verbose.`,
		Example: `  tidemark restore latest --target /tmp/back
  tidemark restore 1f3a:/home/ann/docs --target ~/docs --include '*.tex'
  tidemark restore latest --target / --overwrite if-changed`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) error {
		f.answered = c.Flags().Changed("overwrite")
		return a.restore(ctx, f, args[0])
	}, options.GroupPolicy)
	// Readers and compressors share one number in a restore, and there are no scanners or uploads.
	parallel := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.Register(parallel, options.GroupParallel)
	for _, name := range []string{"resource-utilization", "memory"} {
		c.Flags().AddFlag(parallel.Lookup(name))
	}
	f.register(c.Flags())
	complete(c, "overwrite", oneOf("always", "if-changed", "if-newer", "never"))
	a.pastFlag(c)
	return c
}

func (f *restoreFlags) check() error {
	switch {
	case f.to.Path == "":
		return usagef("--target is missing: name the directory to restore to, or / with --include PATH to restore in place")
	case !f.sparse:
		return usagef("--sparse=false: a restore never writes holes: leave the flag out")
	}
	return nil
}

func (a *app) restore(ctx context.Context, f *restoreFlags, argument string) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	to := &f.to
	to.Gate = a.governor.Gate
	if to.Overwrite, err = restore.ParseOverwrite(f.overwrite); err != nil {
		return &usageError{err}
	}
	selected, err := f.selection(a.Env)
	if err != nil {
		return err
	}
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	found, sub, err := f.find(ctx, r, argument)
	if err != nil {
		return err
	}
	if len(found.Unread) > 0 { // what the unreadable snapshots hold may be newer: --overwrite did not agree to lose it
		f.answered, f.doubt = false, found.ID.Short()
	}
	what := restore.Selection{Tree: found.Snapshot.Tree, Sub: sub, Sources: found.Snapshot.Sources,
		Made: found.Snapshot.Start}
	if selected != nil {
		what.Take = selected.Take
	}
	to.Apply.ForeignFlags = !strings.HasPrefix(found.Snapshot.System, runtime.GOOS+"/")
	if f.byName {
		to.Owners = restore.OwnersByName(found.Snapshot)
	}
	refused, err := a.confirmReplacing(ctx, r, what, f)
	if err != nil {
		return err
	}
	l, end := a.begin(ctx, report.Restore, found.ID.String())
	defer end()
	if selected == nil && strings.Trim(sub, "/") == "" {
		content := found.Snapshot.Stats.Content
		l.Expect(report.Expected{Objects: content.Objects(), Bytes: content.Bytes})
	}
	stop := a.print.Watch(ctx, l)
	par := a.spec.Parallel(sysinfo.CPUCount(), options.Media{}).Workers
	if f.to.DryRun && a.spec.Output().Verbose > 0 {
		what.Planned = func(path, what, why string) {
			_ = a.print.Print(output.Would(path, what, why))
		}
	}
	result, err := restore.Run(ctx, r, what, *to, max(par.Readers, par.Compressors), l)
	if err == nil {
		l.Phase(report.Done)
	}
	stop()
	if !f.to.DryRun {
		a.recordDamage(ctx, r, result, err)
	}
	if err != nil {
		return withAbsolute(err, sub)
	}
	shown := &output.Restore{Ledger: l, Target: f.to.Path, DryRun: f.to.DryRun, Hint: ownersHint(result.Problems),
		Replaced: result.Replaced.Objects, Newer: result.Replaced.Newer}
	if err := errors.Join(a.print.Report(shown), refused); err != nil {
		return err
	}
	f.dsmc.kept = l.Objects.Kept.Load()
	missed := selected != nil && f.dsmc.take == nil && a.noteUnmatched(selected, l.Objects.Inspected.Load())
	if failed := l.Objects.Failed.Load(); failed > 0 {
		return fmt.Errorf("%s %w", human.Plural(failed, "object"), errNotRestored)
	}
	if missed {
		return errUnmatched
	}
	return nil
}

// find returns the snapshot and the path that are restored.
func (f *restoreFlags) find(ctx context.Context, r *repo.Repository, argument string) (repo.Listed, string, error) {
	if f.dsmc.choose != nil {
		return f.dsmc.choose(ctx, r)
	}
	return find(ctx, r, argument, f.snapshots)
}

// longLook is after what time it is said that existing files are compared before anything is restored.
const longLook = 5 * time.Second

// confirmReplacing asks, at a terminal, before objects are replaced by other content or removed. Without a terminal,
// the restore ends here; a dry run asks nothing, and goes on: refused is the error with which it ends then. --overwrite
// answers ahead. With -replace=prompt of IBM's client it asks before any is replaced, and a no keeps them.
func (a *app) confirmReplacing(ctx context.Context, r *repo.Repository, what restore.Selection, f *restoreFlags,
) (refused, err error) {
	to := &f.to
	if f.dsmc.prompt {
		return nil, a.promptReplacing(ctx, r, what, to)
	}
	if f.answered {
		return nil, nil
	}
	var terminal *unlock.Terminal
	if !a.spec.Output().JSON {
		terminal = unlock.OpenTerminal(a.Err)
	}
	if f.to.DryRun && terminal != nil {
		return nil, nil
	}
	if !f.to.DryRun {
		to.Asked, to.Unasked = time.Now(), true
	}
	long := time.AfterFunc(longLook, func() { a.print.Note("comparing existing files with the snapshot") })
	found, err := restore.Look(ctx, r, what, *to)
	long.Stop()
	if err != nil || found.Differ+found.Extra == 0 {
		return nil, context.Cause(ctx) // the restore reports other errors
	}
	if terminal == nil {
		if refused = unasked(found, f); f.to.DryRun {
			return refused, nil
		}
		return nil, refused
	}
	text, question, advice := "", "Remove them?", "without --delete, what the snapshot does not have stays"
	if found.Differ > 0 {
		text = listed(found.Differ, f.to.Path, "differ from the snapshot, and would be replaced", found.Examples)
		question, advice = "Replace them?", "--overwrite never keeps what exists, if-newer what has a later "+
			"modification time than in the snapshot, and always replaces it"
	}
	if found.Extra > 0 {
		text += listed(found.Extra, f.to.Path, "would be removed (the snapshot lacks them)", found.Removed)
	}
	if found.Differ > 0 && found.Extra > 0 {
		question = "Replace and remove them?"
	}
	yes, err := terminal.Confirm(ctx, text+question)
	if err == nil && !yes {
		err = errors.New("nothing was restored: " + advice)
	}
	to.Unasked = false
	return nil, err
}

// listed returns lines that name the first of n objects in the target.
func listed(n uint64, target, what string, examples []string) string {
	text := fmt.Sprintf("%s in %s %s:\n", human.Plural(n, "object"), human.Printable(target), what)
	for _, path := range examples {
		text += "  " + human.Printable(path) + "\n"
	}
	if more := n - uint64(len(examples)); more > 0 {
		text += fmt.Sprintf("  and %d more\n", more)
	}
	return text
}

// unasked returns the error of a restore without consent to replace or remove what was found.
func unasked(found *restore.Survey, f *restoreFlags) error {
	var text []string
	if found.Differ > 0 {
		text = append(text, human.Plural(found.Differ, "object")+" would be replaced")
	}
	if found.Extra > 0 {
		text = append(text, human.Plural(found.Extra, "object")+" would be removed")
	}
	var names []string
	for _, path := range slices.Concat(found.Examples, found.Removed) {
		names = append(names, human.Printable(path))
	}
	if more := found.Differ + found.Extra - uint64(len(names)); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	advice := "--overwrite always agrees, never keeps what exists, and if-newer what is newer than in the snapshot"
	if f.doubt != "" {
		advice = "since a newer snapshot may exist that cannot be read, name " + f.doubt + " instead of latest to agree"
	}
	what := "nothing was restored"
	if f.to.DryRun {
		what = "without a terminal to ask on, the restore would change nothing"
	}
	return fmt.Errorf("%s, since files in %s differ from the snapshot: %s (%s); %s", what, human.Printable(f.to.Path),
		strings.Join(text, ", "), strings.Join(names, ", "), advice)
}

// promptReplacing asks whether existing objects are replaced.
func (a *app) promptReplacing(ctx context.Context, r *repo.Repository, what restore.Selection,
	to *restore.Target) error {
	terminal := unlock.OpenTerminal(a.Err)
	if terminal == nil {
		return errors.New("there is no terminal to ask on any more: nothing was restored")
	}
	asked := *to
	asked.Overwrite, asked.DryRun = restore.Always, true
	look := report.NewJob(report.Restore, time.Now)
	found, err := restore.Run(ctx, r, what, asked, 1, look)
	if err != nil || found.Replaced.Objects == 0 {
		return context.Cause(ctx) // the restore reports other errors
	}
	question := human.Plural(found.Replaced.Objects, "existing object") + " would be replaced. Replace?"
	yes, err := terminal.Confirm(ctx, question)
	if yes {
		to.Overwrite = restore.Always
	}
	return err
}

// noteUnmatched reports single patterns that no object has matched: a mistyped one must not look like a missing file.
// An object below an excluded directory is never compared. missed: one of them was to be restored.
func (a *app) noteUnmatched(s *selection, restored uint64) (missed bool) {
	if restored == 0 {
		a.print.Note("no object of the snapshot was selected: check the patterns of --include and --exclude")
	}
	for _, p := range s.patterns {
		if p.matched.Load() {
			continue
		}
		a.print.Note(fmt.Sprintf("no object matches %s %s: check the pattern", p.flag, human.Printable(p.text)))
		missed = missed || strings.HasSuffix(p.flag, "include")
	}
	return missed
}

// recordDamage marks the packs that a restore could not read, so that the next backup stores what it needs of them
// again. A failure is only a note: a restore works from a read-only repository.
func (a *app) recordDamage(ctx context.Context, r *repo.Repository, result *restore.Result, err error) {
	var packs []format.ID
	var lost *repo.PackError
	switch {
	case result != nil:
		packs = result.Damaged
	case errors.As(err, &lost) && !errors.Is(err, restore.ErrUnreachable):
		packs = []format.ID{lost.Pack}
	}
	if len(packs) == 0 || ctx.Err() != nil {
		return
	}
	packs, err = r.StillDamaged(ctx, packs)
	n := 0
	if err == nil && len(packs) > 0 {
		n, err = r.RecordDamage(ctx, hostName(), packs)
	}
	switch {
	case err != nil:
		a.print.Note(fmt.Sprintf("the damage could not be recorded in the repository: %v", err))
	case n > 0:
		a.rememberDamage(r, uint64(n))
		a.print.Note(fmt.Sprintf("packs marked as damaged: %d; the next backup stores what it needs of them again", n))
	}
}

// ownersHint summarizes the most frequent remark: only root can change owners.
func ownersHint(problems map[string]uint64) string {
	n := problems["owner"]
	if n == 0 || os.Geteuid() == 0 {
		return ""
	}
	return ownersText(n)
}

func ownersText(n uint64) string {
	if n == 1 {
		return "1 object belongs to you instead of its owner, since you are not root."
	}
	return fmt.Sprintf("%s belong to you instead of their owners, since you are not root.", human.Plural(n, "object"))
}
