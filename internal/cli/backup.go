package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

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
	label      labelFlags
	parent     parentFlags
	dryRun     bool
	noHooks    bool
	lists      pathLists
	stream     streamFlags
	repository repositoryFlags
	all        *pflag.FlagSet // of the command, options too
}

// labelFlags are recorded in the snapshot.
type labelFlags struct {
	tags                  []string
	host, time, note, job string
}

// parentFlags are about the comparison with the parent snapshot.
type parentFlags struct {
	ref           string
	comparing     backup.Comparing
	skipUnchanged bool
	reread        bool // read all unchanged files again
	shrink        bool // sources that shrank are as they should be
}

// repositoryFlags are about the repository before the backup starts.
type repositoryFlags struct{ make, measure bool }

// streamFlags are about the backup of a stream.
type streamFlags struct {
	stdin, command bool
	name           string
}

func (f *backupFlags) register(flags *pflag.FlagSet) {
	f.all = flags
	flags.Var((*tagList)(&f.label.tags), "tag", "add a tag to the snapshot; repeatable, or a list a,b")
	flags.StringVarP(&f.label.host, "host", "H", "", "host name to record in the snapshot (default: of this machine)")
	flags.StringVar(&f.label.time, "time", "", "time to record in the snapshot, as 2006-01-02 15:04:05 (default: now)")
	flags.StringVar(&f.label.note, "description", "", "free text to record in the snapshot")
	flags.StringVar(&f.label.job, "job", "", "name of the job to record; a policy in words keeps snapshots without one")
	flags.StringVar(&f.parent.ref, "parent", "",
		"compare with this snapshot (default: for each path, the newest of the same host that has it)")
	flags.BoolVarP(&f.parent.comparing.Force, "force", "f", false,
		"read all files, also those unchanged since the parent snapshot")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "do everything except write")
	flags.BoolVar(&f.noHooks, "no-hooks", false, "run no commands before and after the backup; --dry-run runs none either")
	flags.BoolVar(&f.parent.shrink, "expect-shrink", false, "accept sources that are empty or much smaller than before")
	flags.BoolVar(&f.parent.skipUnchanged, "skip-if-unchanged", false,
		"create no snapshot if nothing has changed since the parent")
	flags.BoolVar(&f.parent.comparing.IgnoreInode, "ignore-inode", false,
		"do not take a file for changed because its inode number differs")
	flags.BoolVar(&f.parent.comparing.IgnoreCtime, "ignore-ctime", false,
		"do not take a file for changed because its ctime differs")
	flags.BoolVar(&f.parent.reread, "force-reread", false,
		"after the snapshot, compare all unchanged files with it, however long that takes")
	f.lists.register(flags)
	flags.BoolVar(&f.stream.stdin, "stdin", false, "back up standard input as one file")
	flags.BoolVar(&f.stream.command, "stdin-from-command", false, "back up the output of a command, the arguments; "+
		"if it fails, no snapshot is created")
	flags.StringVar(&f.stream.name, "stdin-filename", "stdin", "path of that file in the snapshot")
	flags.BoolVar(&f.repository.measure, "check-destination", false,
		"measure the write speed of the repository's disk or share first")
	flags.BoolVar(&f.repository.make, "init", false,
		"create the repository if it does not exist; the folder above it must; the default one always is")
	help.Topic(flags, options.TopicWhere, "init", "check-destination")
	help.Rare(flags, "host", "time", "description", "job", "parent", "force", "expect-shrink", "no-hooks",
		"skip-if-unchanged", "force-reread", "ignore-inode", "ignore-ctime", "stdin-filename", "check-destination")
}

// acceptCommand returns the command by which a person accepts what a job of the service found; "" without a job.
func (f *backupFlags) acceptCommand(args []string) string {
	if f.label.job == "" || len(args) > 0 {
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
		options.GroupPolicy, options.GroupParallel, options.GroupTransfer, options.GroupCompression, options.GroupReading,
		options.GroupSelection)
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
	l := report.New(time.Now)
	a.place.Intake.Attach(l)
	job.Session.Observer = &observer{ledger: l, note: a.print.Note}
	defer a.publish(ctx, "backup", job.Label.Sources, l)()
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
	skipped := out.ID.IsZero() && !f.dryRun
	warnings := a.warnOf(r, out)
	end := &output.Backup{Ledger: l, ID: out.ID, Skipped: skipped, Found: out.Sources, Full: a.spec.Output().Full,
		BackupSummary: event.BackupSummary{Repository: r.ID(), DryRun: f.dryRun, FilesMended: out.Mended,
			RetentionWaits: forget.Doubt(out.Snapshot), Warnings: warnings}}
	if err := a.print.Report(end); err != nil {
		return snapshot, err
	}
	if err := a.reread(ctx, r, job, out, f.parent.reread); err != nil {
		return snapshot, err
	}
	if !f.dryRun {
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
	case f.dryRun:
		a.print.Note("the repository does not exist yet: everything counts as new")
		return a.place.InMemory(ctx, repo.InitOptions{Recovery: true, Label: label()})
	case f.repository.make || !a.spec.Repository().Named:
		return a.create(ctx, false, repo.InitOptions{})
	}
	return nil, err
}

// backupJob returns the job that flags, options and arguments describe, and the options with the rules of its sources.
func (a *app) backupJob(ctx context.Context, f *backupFlags, args []string) (*backup.Job, *options.Spec, error) {
	if slices.Contains(f.label.tags, "") {
		return nil, nil, usagef("--tag: the tag is empty: leave it out for a snapshot without tags")
	}
	job := &backup.Job{
		Label: backup.Label{Host: f.label.host, User: userName(), Tags: f.label.tags, Description: f.label.note,
			System: system(), Job: f.label.job,
			UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Program: "tidemark " + version()},
		Parent:        f.parent.ref,
		SkipUnchanged: f.parent.skipUnchanged,
		NoDirCache:    !a.spec.Cache().Enabled,
	}
	job.Session = repo.SessionOptions{
		Holder: repo.Holder{Host: hostName()}, Level: level(a.spec.Compression().Level), DryRun: f.dryRun,
	}
	if job.Label.Host == "" {
		job.Label.Host = hostName()
	}
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
	if f.label.time != "" {
		at, err := parseTime(f.label.time)
		if err != nil {
			return nil, nil, err
		}
		job.Label.Time = at
	}
	if f.stream.stdin || f.stream.command {
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
	job.Checkpoint = spec.Sources().Checkpoint
	job.Source.Shrink = backup.ShrinkLimit{
		Percent: spec.Sources().ShrinkLimit, Accept: f.parent.shrink, Command: f.acceptCommand(args),
	}
	reading := spec.Reading()
	job.Source.Reading.Serialization = reading.Serialization
	job.Source.Reading.Retries, job.Source.Reading.AccessTime = reading.Retries, reading.AccessTimes
	job.Source.Reading.Singly, job.Source.Reading.Cached = !reading.Batches, !reading.Direct
	if job.Source.Reading.Order, err = backup.ParseOrder(reading.Order); err != nil {
		return nil, err
	}
	job.Source.Gate, job.Source.Rotational = a.governor.Gate, a.governor.Rotational
	job.Source.Comparing = f.parent.comparing
	job.Source.Comparing.Relist = !reading.Names
	return spec, nil
}

// level converts a compression level: options use 0 for off, a session for its default.
func level(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func system() string { return runtime.GOOS + "/" + runtime.GOARCH }
