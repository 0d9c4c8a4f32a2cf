package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/cli/folders"
	"github.com/tidemark-backup/tidemark/internal/cli/listed"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/scan"
)

// backupFlags are those that concern one run, and so are no options.
type backupFlags struct {
	label         labelFlags
	parent        string
	comparing     backup.Comparing
	dryRun        bool
	skipUnchanged bool
	lists         listed.Files
	stream        streamFlags
	place         placeFlags
}

// labelFlags are what a snapshot says of itself.
type labelFlags struct {
	tags             []string
	host, time, note string
}

// placeFlags are what is done with the place of the repository beforehand.
type placeFlags struct{ make, measure bool }

// streamFlags are about a backup of a stream.
type streamFlags struct {
	stdin, command bool
	name           string
}

func (f *backupFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.label.tags, "tag", nil, "tag the snapshot; may be given several times, or a,b")
	flags.StringVarP(&f.label.host, "host", "H", "", "name of the machine in the snapshot (default: this one's)")
	flags.StringVar(&f.label.time, "time", "", "time of the snapshot, as 2006-01-02 15:04:05 (default: now)")
	flags.StringVar(&f.label.note, "description", "", "what the snapshot is for, in your words")
	flags.StringVar(&f.parent, "parent", "", "compare with this snapshot (default: the newest of this host and these paths)")
	flags.BoolVarP(&f.comparing.Force, "force", "f", false, "read all files, whatever the parent snapshot says")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "do everything but write")
	flags.BoolVar(&f.skipUnchanged, "skip-if-unchanged", false, "save no snapshot if it would equal its parent")
	flags.BoolVar(&f.comparing.IgnoreInode, "ignore-inode", false, "a file is not changed because its inode number is")
	flags.BoolVar(&f.comparing.IgnoreCtime, "ignore-ctime", false, "a file is not changed because its ctime is")
	f.lists.Register(flags)
	flags.BoolVar(&f.stream.stdin, "stdin", false, "back up standard input as one file")
	flags.BoolVar(&f.stream.command, "stdin-from-command", false, "run the arguments as a command and back up its output; "+
		"if it fails there is no snapshot")
	flags.StringVar(&f.stream.name, "stdin-filename", "stdin", "path of that file in the snapshot")
	flags.BoolVar(&f.place.measure, "check-destination", false, "first measure how fast the place of the repository takes files")
	flags.BoolVar(&f.place.make, "init", false, "make the repository first if there is none (always so at the default place)")
}

func (a *app) backupCommand() *cobra.Command {
	f := &backupFlags{}
	c := a.command(&cobra.Command{
		Use:   "backup [flags] PATH...",
		Short: "Make a snapshot of files and directories",
		Long: `Makes a snapshot of the paths. Only what the repository does not hold yet is stored.

If no repository is named and there is none at the default place, it is made, with a key file for this machine and a
recovery key that is shown once. No question is asked.

Exit code 3 says that there is a snapshot which lacks some objects: each is named on standard error.`,
		Example: `  tidemark backup ~
  tidemark backup --tag nightly --exclude '*.o' --one-file-system /
  pg_dumpall | tidemark backup --stdin --stdin-filename all.sql
  tidemark backup --stdin-from-command --stdin-filename all.sql -- pg_dumpall`,
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{folders.TakesAddress: "COMMAND"}, // fromPaths refuses them
	}, func(ctx context.Context, args []string) error { return a.backup(ctx, f, args) },
		options.GroupPolicy, options.GroupParallel, options.GroupTransfer, options.GroupCompression, options.GroupReading,
		options.GroupSelection)
	f.register(c.Flags())
	complete(c, "parent", a.snapshotArgs(-1))
	return c
}

func (a *app) backup(ctx context.Context, f *backupFlags, args []string) (err error) {
	job, err := a.backupJob(ctx, f, args)
	if err != nil {
		return err
	}
	a.task.sources = job.Label.Sources
	a.dial(job)
	a.yield(options.LaterBackup)
	job.Parent.Seen = func(before bool) {
		if !before {
			a.yield(options.FirstBackup)
		}
	}
	r, err := a.openOrCreate(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := a.lookAtTarget(ctx, f, r.ID()); err != nil {
		return err
	}
	if job.Stdin == nil {
		// The cache must be there before it can be kept out under all its names.
		if _, err := r.Cache(); err != nil {
			return err
		}
		if err := a.protect(&job.Source); err != nil {
			return err
		}
		for _, rule := range job.Source.Rules.List() {
			job.Label.Rules = append(job.Label.Rules, rule.String())
		}
	}
	l := report.New(time.Now)
	a.received.book(l)
	job.Session.Observer = &observer{ledger: l, note: a.print.Note}
	defer a.expose(ctx, "backup", job.Label.Sources, l)()
	stop := a.print.Watch(ctx, l)
	out, err := backup.Make(ctx, r, *job, l)
	if err == nil {
		l.Phase(report.Done)
	}
	stop()
	if err != nil {
		return err
	}
	skipped := out.ID.IsZero() && !f.dryRun
	end := &output.Backup{Ledger: l, ID: out.ID, DryRun: f.dryRun, Skipped: skipped, Verbose: a.spec.Output().Verbose > 0}
	if err := a.print.Tell(end); err != nil {
		return err
	}
	if out.Failed {
		return fmt.Errorf("%w, see above; the snapshot holds everything else", errIncomplete)
	}
	return nil
}

// openOrCreate opens the repository, or makes it on first use.
func (a *app) openOrCreate(ctx context.Context, f *backupFlags) (*repo.Repository, error) {
	r, err := a.open(ctx)
	if !errors.Is(err, repo.ErrNoRepository) {
		return r, err
	}
	switch {
	case f.dryRun:
		a.print.Note("there is no repository yet: everything counts as new")
		return a.imagine(ctx)
	case f.place.make || !a.spec.Repository().Named:
		return a.create(ctx, false)
	}
	return nil, err
}

// backupJob makes the job of flags, options and arguments.
func (a *app) backupJob(ctx context.Context, f *backupFlags, args []string) (*backup.Job, error) {
	if slices.Contains(f.label.tags, "") {
		return nil, usagef("--tag: an empty tag could not be asked for again: leave it out for a snapshot without tags")
	}
	job := &backup.Job{
		Label: backup.Label{Host: f.label.host, User: userName(), Tags: f.label.tags, Description: f.label.note, System: system(),
			UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Program: "tidemark " + version()},
		Parent:        backup.ParentChoice{Ref: f.parent},
		SkipUnchanged: f.skipUnchanged,
		NoMemory:      !a.spec.Cache().Enabled,
	}
	job.Session = repo.SessionOptions{
		Holder: repo.Holder{Host: hostName()}, Level: level(a.spec.Compression().Level), DryRun: f.dryRun,
	}
	if job.Label.Host == "" {
		job.Label.Host = hostName()
	}
	if f.label.time != "" {
		at, err := parseTime(f.label.time)
		if err != nil {
			return nil, err
		}
		job.Label.Time = at
	}
	if f.stream.stdin || f.stream.command {
		return job, a.fromStdin(ctx, f, args, job)
	}
	return job, a.fromPaths(f, args, job)
}

// crews turns the dial into crews. Of the memory, a third is for file data on its way to the workers, the rest for packs.
//
// A value of the dial is the ceiling: half of it begins. Without one, the machine decides what begins, and up to twice as
// many readers may come. What is named singly stays as it is. What is best in between shows during the run.
func crews(par options.Parallel) backup.Parallel {
	w := par.Workers
	limits := func(n, named, most int) backup.Range {
		switch {
		case named > 0:
			return backup.Range{Start: n, Least: n, Most: n}
		case par.Utilization > 0:
			return backup.Range{Start: (n + 1) / 2, Least: 1, Most: n}
		}
		return backup.Range{Start: n, Least: 1, Most: most}
	}
	return backup.Parallel{
		Scanners: w.Scanners,
		Readers:  limits(w.Readers, par.Named.Readers, 2*w.Readers),
		Workers:  limits(w.Compressors, par.Named.Compressors, w.Compressors),
		Uploads:  limits(w.Uploads, par.Named.Uploads, w.Uploads),
		Memory:   par.Memory / 3,
	}
}

func (a *app) fromPaths(f *backupFlags, args []string, job *backup.Job) error {
	paths, err := f.lists.Paths(a.In, args)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := folders.Source(path); err != nil {
			return &usageError{err}
		}
	}
	if job.Source.Root, err = scan.Sources(paths); err != nil {
		return err
	}
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("find source %s: %w", path, err)
		}
		// One that is not there is told when it is looked for. In the snapshot it would stand for nothing, and keep the
		// next backup without it from finding its parent.
		if _, err := os.Lstat(absolute); !missing(err) {
			job.Label.Sources = append(job.Label.Sources, absolute)
		}
	}
	reading := a.spec.Reading()
	if job.Source.Reading.Serialization, err = backup.ParseSerialization(reading.Serialization.String()); err != nil {
		return err
	}
	job.Source.Reading.Retries, job.Source.Reading.AccessTime = reading.Retries, reading.AccessTimes
	job.Source.Reading.Singly, job.Source.Reading.Cached = !reading.Batches, !reading.Direct
	if job.Source.Reading.Order, err = backup.ParseOrder(reading.Order); err != nil {
		return err
	}
	job.Source.Gate, job.Source.Turns = a.gate, a.turns
	job.Source.Comparing = f.comparing
	job.Source.Comparing.Relist = !reading.Names
	return nil
}

// missing reports whether an error says that there is nothing of that name.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// level translates: options count 0 as off, a session as its default.
func level(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func system() string { return runtime.GOOS + "/" + runtime.GOARCH }
