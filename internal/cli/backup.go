package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// backupFlags are the flags that are not options, since they concern one run.
type backupFlags struct {
	job                            backup.Job // as far as flags describe it
	time, streamName               string
	noHooks, stdin, stdinByCommand bool
	reread                         bool // read all unchanged files again
	create, measure                bool // the repository, before the backup starts
	lists                          pathLists
	all                            *pflag.FlagSet // of the command, options too
}

func (f *backupFlags) register(flags *pflag.FlagSet) {
	f.all = flags
	label, src := &f.job.Label, &f.job.Source
	flags.Var(tagList(&label.Tags), "tag", "add a tag to the snapshot; repeatable, or a list a,b")
	flags.StringVarP(&label.Host, "host", "H", "", "host name to record in the snapshot (default: of this machine)")
	flags.StringVar(&f.time, "time", "", "time to record in the snapshot, as 2006-01-02 15:04:05 (default: now)")
	flags.StringVar(&label.Description, "description", "", "free text to record in the snapshot")
	flags.StringVar(&label.Job, "job", "", "name of the job to record; a policy in words keeps snapshots without one")
	flags.StringVar(&f.job.Parent, "parent", "",
		"compare with this snapshot (default: for each path, the newest of the same host that has it)")
	flags.BoolVarP(&src.Comparing.Force, "force", "f", false,
		"read all files, also those unchanged since the parent snapshot")
	flags.BoolVarP(&f.job.Session.DryRun, "dry-run", "n", false, "do everything except write")
	flags.BoolVar(&f.noHooks, "no-hooks", false, "run no commands before and after the backup; --dry-run runs none either")
	flags.BoolVar(&src.Shrink.Accept, "expect-shrink", false, "accept sources that are empty or much smaller than before")
	flags.BoolVar(&f.job.SkipUnchanged, "skip-if-unchanged", false,
		"create no snapshot if nothing has changed since the parent")
	flags.BoolVar(&src.Comparing.IgnoreInode, "ignore-inode", false,
		"do not take a file for changed because its inode number differs")
	flags.BoolVar(&src.Comparing.IgnoreCtime, "ignore-ctime", false,
		"do not take a file for changed because its ctime differs")
	flags.BoolVar(&f.reread, "force-reread", false,
		"after the snapshot, compare all unchanged files with it, however long that takes")
	f.lists.register(flags)
	flags.BoolVar(&f.stdin, "stdin", false, "back up standard input as one file")
	flags.BoolVar(&f.stdinByCommand, "stdin-from-command", false, "back up the output of a command, the arguments; "+
		"if it fails, no snapshot is created")
	flags.StringVar(&f.streamName, "stdin-filename", "stdin", "path of that file in the snapshot")
	flags.BoolVar(&f.measure, "check-destination", false,
		"measure the write speed of the repository's disk or share first")
	flags.BoolVar(&f.create, "init", false,
		"create the repository if it does not exist; the folder above it must; the default one always is")
	help.Topic(flags, options.TopicWhere, "init", "check-destination")
	help.Rare(flags, "host", "time", "description", "job", "parent", "force", "expect-shrink", "no-hooks",
		"skip-if-unchanged", "force-reread", "ignore-inode", "ignore-ctime", "stdin-filename", "check-destination")
}

// acceptCommand returns the command by which a person accepts what a job of the service found; "" without a job.
func (f *backupFlags) acceptCommand(args []string) string {
	if f.job.Label.Job == "" || len(args) > 0 {
		return ""
	}
	command := "tidemark backup --expect-shrink"
	for _, name := range []string{"job", "option-file", "server-name", "repo"} {
		if flag := f.all.Lookup(name); flag != nil && flag.Changed {
			command += " --" + name + " " + human.ShellWord(flag.Value.String())
		}
	}
	return command
}

// backupGroups are the groups of options that a backup uses, beside those that all commands have.
func backupGroups() []options.Group {
	return []options.Group{options.GroupPolicy, options.GroupParallel, options.GroupTransfer, options.GroupCompression,
		options.GroupReading, options.GroupSelection}
}

func (a *app) backupCommand() *cobra.Command {
	f := &backupFlags{}
	c := a.command(&cobra.Command{
		Use:   "backup [flags] [PATH...]",
		Short: "Back up files and directories",
		Long: `Creates a snapshot of the paths. Only new and changed data is stored.

If no repository is named and none exists at the default place, one is created there, with a key file for this machine
and a recovery key that is shown once. The first run needs no configuration.

Without PATH, the file systems of DOMAIN in the option file are backed up, each without those mounted below it.

Exit code 3: the snapshot was created, but some objects could not be backed up. Each is named on standard error. So is
a source that is missing, empty, or has much less than in the last snapshot, or in a partial one since (--shrink-limit).
If that is right, run the backup once with --expect-shrink. Until a backup is complete again, 'tidemark forget' removes
none of these snapshots by a policy.`,
		Example: `  tidemark backup ~
  tidemark backup --tag nightly --exclude '*.o' --one-file-system /
  pg_dumpall | tidemark backup --stdin --stdin-filename all.sql
  tidemark backup --stdin-from-command --stdin-filename all.sql -- pg_dumpall`,
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{takesAddress: "COMMAND"}, // fromPaths refuses them
	}, func(ctx context.Context, args []string) error { return a.backup(ctx, f, args) },
		backupGroups()...)
	f.register(c.Flags())
	complete(c, "parent", a.snapshotArgs(-1))
	return c
}

// isRepository reports whether a line of the option file names the repository of this run.
func (a *app) isRepository(named string) bool {
	if rest, ok := strings.CutPrefix(named, "~/"); ok {
		home, _ := a.Env("HOME")
		named = filepath.Join(home, rest)
	}
	at, err := location.Parse(named)
	here, err2 := a.place.Location()
	return err == nil && err2 == nil && at.String() == here.String()
}

// backup makes a snapshot, between the commands of the option file.
func (a *app) backup(ctx context.Context, f *backupFlags, args []string) error {
	return a.withHooks(ctx, f, func() (string, error) { return a.makeSnapshot(ctx, f, args) })
}

// makeSnapshot makes a snapshot and returns its ID, also with an error; "" if none was saved.
func (a *app) makeSnapshot(ctx context.Context, f *backupFlags, args []string) (snapshot string, err error) {
	job, spec, err := a.backupJob(ctx, f, args)
	if err != nil {
		return "", err
	}
	a.place.Sources = job.Label.Sources
	a.fit(job)
	job.Phases = a.phases()
	r, err := a.openOrCreate(ctx, f)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := a.prepareTarget(ctx, f, r.ID()); err != nil {
		return "", err
	}
	thaw, err := a.freeze(ctx, f, job)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, thaw()) }()
	if err := a.applyRules(ctx, spec, r, job); err != nil {
		return "", err
	}
	l, end := a.begin(ctx, report.Backup, job.Label.Sources...)
	defer end()
	a.writes(&job.Session, l)
	stop := a.watch(ctx, l)
	out, err := backup.Run(ctx, r, *job, l)
	_ = thaw() // the deferred call returns its error
	if err == nil {
		l.Phase(report.Done)
	}
	stop()
	if err != nil {
		return "", err
	}
	if !out.ID.IsZero() {
		snapshot = out.ID.String()
	}
	skipped := out.ID.IsZero() && !f.job.Session.DryRun
	warnings := a.warnOf(r, out)
	result := &output.Backup{Ledger: l, ID: out.ID, Skipped: skipped, Found: out.Sources,
		BackupSummary: event.BackupSummary{Repository: r.ID(), DryRun: f.job.Session.DryRun, FilesMended: out.Mended,
			RetentionWaits: forget.Doubt(out.Snapshot), Warnings: warnings}}
	if err := a.print.Report(result); err != nil {
		return snapshot, err
	}
	if err := a.reread(ctx, r, job, out, f.reread); err != nil {
		return snapshot, err
	}
	if !f.job.Session.DryRun {
		a.remind(r, job.Label.Sources)
	}
	if out.Failed {
		return snapshot, incomplete(out)
	}
	return snapshot, nil
}

// phases starts a brief part, which is interrupted by the work of a backup: until that begins, and after its end, a
// person waits.
func (a *app) phases() backup.Phases {
	a.governor.Brief(true)
	return backup.Phases{
		Begin: func(first bool) {
			use := options.LaterBackup
			if first {
				use = options.FirstBackup
			}
			a.applyPolicy(use)
			a.governor.Brief(false)
		},
		End: func() { a.governor.Brief(true) },
	}
}

// warnOf prints which snapshots are damaged and which sources changed suspiciously. Damage is recorded on this machine.
func (a *app) warnOf(r *repo.Repository, out *backup.Outcome) (all []string) {
	for _, id := range out.Damaged {
		all = append(all, "snapshot "+id.Short()+" is damaged and cannot be read: 'tidemark check' says more")
	}
	if len(all) > 0 {
		a.rememberDamage(r, uint64(len(all)))
	}
	for _, id := range out.PutBack {
		all = append(all, "snapshot "+id.Short()+" was damaged, and was put back from a copy on this machine: something "+
			"damages files of the repository, and 'tidemark check --read-data' shows what else")
	}
	for _, text := range all {
		a.warnAlways(text)
	}
	for i := range out.Sources {
		if text := out.Sources[i].Warning; text != "" {
			all = append(all, text)
			a.print.Note(text)
		}
	}
	if out.Former != "" {
		a.print.Note(fmt.Sprintf("these folders are new for host %s: host %s backed them up before, so they were compared "+
			"with its snapshots, which stay: see 'tidemark forget --host'", human.Printable(out.Snapshot.Host),
			human.Printable(out.Former)))
	}
	if out.Unusual != "" {
		all = append(all, out.Unusual)
		a.print.Note(out.Unusual)
	}
	return all
}

// incomplete returns the error of a backup whose snapshot lacks objects.
func incomplete(out *backup.Outcome) error {
	var lost []string
	for i := range out.Sources {
		if f := &out.Sources[i]; f.Doubted() {
			lost = append(lost, "source "+human.Printable(f.Path)+": "+f.Message)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%w: %s", errIncomplete, human.Harmless(strings.Join(lost, "; ")))
	}
	return fmt.Errorf("%w; the snapshot holds everything else", errIncomplete)
}

// openOrCreate opens the repository, or creates it on first use.
func (a *app) openOrCreate(ctx context.Context, f *backupFlags) (*repo.Repository, error) {
	r, err := a.open(ctx)
	if !errors.Is(err, repo.ErrNoRepository) {
		return r, err
	}
	switch {
	case f.job.Session.DryRun:
		a.print.Note("the repository does not exist yet: everything counts as new")
		return a.place.InMemory(ctx, repo.InitOptions{Recovery: true, Label: label()})
	case f.create || !a.spec.Repository().Named:
		return a.create(ctx, false, repo.InitOptions{})
	}
	return nil, err
}

// backupJob returns the job that flags, options and arguments describe, and the options with the rules of its sources.
func (a *app) backupJob(ctx context.Context, f *backupFlags, args []string) (*backup.Job, *options.Spec, error) {
	job := &f.job
	if slices.Contains(job.Label.Tags, "") {
		return nil, nil, usagef("--tag: the tag is empty: leave it out for a snapshot without tags")
	}
	label := &job.Label
	label.Host, label.User, label.System = cmp.Or(label.Host, hostName()), userName(), system()
	label.UID, label.GID, label.Program = uint32(os.Getuid()), uint32(os.Getgid()), "tidemark "+version()
	job.NoDirCache = !a.spec.Cache().Enabled
	if path := a.spec.File(); path != "" {
		content, err := optionfile.ReadRegular(path)
		if err != nil {
			return nil, nil, fmt.Errorf("read the option file: %w", err)
		}
		if job.Label.Setup = options.Portable(content, a.isRepository); len(job.Label.Setup) > options.MaxPortable {
			job.Label.Setup = ""
			a.print.Note("the option file is not stored for 'tidemark setup --from': it is larger than " +
				human.Size(uint64(options.MaxPortable)))
		}
	}
	if f.time != "" {
		at, err := parseTime(f.time)
		if err != nil {
			return nil, nil, err
		}
		job.Label.Time = at
	}
	if f.stdin || f.stdinByCommand {
		return job, a.spec, a.fromStdin(ctx, f, args, job)
	}
	spec, err := a.fromPaths(f, args, job)
	return job, spec, err
}

// fit sets the concurrency of a backup.
func (a *app) fit(job *backup.Job) {
	sources := job.Label.Sources
	if job.Stdin != nil {
		sources = nil // Sources is only the name of the stream
	}
	job.Fit(a.spec, options.Media{Source: a.devices.Medium(a.spec.IO().Medium, sources...), Target: a.place.Medium()})
	job.Parallel.Compute = a.governor.Compute
	a.place.Uploads = job.Session.Uploads
}

// fromPaths sets the sources of a job, and how they are read. It returns the options with the rules of DOMAIN.
func (a *app) fromPaths(f *backupFlags, args []string, job *backup.Job) (spec *options.Spec, err error) {
	spec = a.spec
	paths, err := f.lists.read(a.In, args)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 && !f.lists.given() {
		if spec, paths, err = a.domain(); err != nil {
			return nil, err
		}
		job.Label.Domain = spec.FoundBy()
	}
	for i, path := range paths {
		if err := errors.Join(checkLocalSource(path), linkWithSlash(path)); err != nil {
			return nil, &usageError{err}
		}
		if paths[i], err = entered(path); err != nil {
			return nil, &usageError{err}
		}
	}
	if job.Source.Root, err = backup.Sources(paths); err != nil {
		return nil, err
	}
	if err := a.presentSources(paths, job); err != nil {
		return nil, err
	}
	job.Checkpoint = spec.Checkpoint()
	shrink := &job.Source.Shrink
	shrink.Percent, shrink.Command = spec.ShrinkLimit(), f.acceptCommand(args)
	reading := spec.Reading()
	job.Source.Reading.Serialization = reading.Serialization
	job.Source.Reading.Retries, job.Source.Reading.AccessTime = reading.Retries, reading.AccessTimes
	job.Source.Reading.Singly = !reading.Batches
	if job.Source.Reading.Order, err = backup.ParseOrder(reading.Order); err != nil {
		return nil, err
	}
	job.Source.Gate, job.Source.Rotational = a.governor.Gate, a.governor.Rotational
	job.Source.Comparing.Relist = !reading.Names
	return spec, nil
}

func system() string { return runtime.GOOS + "/" + runtime.GOARCH }

// reread reads the unchanged files that are due, after the snapshot was saved and reported. Errors are only noted,
// since the backup is complete.
func (a *app) reread(ctx context.Context, r *repo.Repository, job *backup.Job, out *backup.Outcome,
	all bool) error {
	a.governor.Yield()
	defer a.governor.Brief(true) // the user waits for the repository to be closed
	opt := backup.RereadOptions{Days: a.spec.Reading().RereadDays, All: all}
	again, err := backup.RereadShare(ctx, r, job, out, opt)
	if err != nil && ctx.Err() == nil {
		a.print.Note(err.Error())
	}
	if again == nil || again.Files == 0 {
		if all {
			a.print.Note("--force-reread: nothing was read again, since there is no new snapshot of files, no file is " +
				"unchanged, or no cache is used")
		}
		return nil
	}
	record := output.Reread(again)
	if len(again.Differing)+len(again.Unreadable) > 0 {
		return a.print.Print(record)
	}
	return a.print.Report(record)
}
