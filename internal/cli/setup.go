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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// setupRun is one run of setup.
type setupRun struct {
	*app
	flags    *pflag.FlagSet
	sources  []string // of --source
	recovery struct { // where the recovery key is kept
		file      string
		confirmed bool
	}
	// from which repository the option file of a lost machine comes
	recover struct{ repository, host, snapshot string }
	yes     bool

	dialog  *setup.Dialog // nil: nothing is asked
	system  *setup.Host
	home    string
	current []options.FileLine // of the option file
	at      location.Location
	unseen  bool // the recovery key of the repository was never shown
	result  output.Setup
	runs    bool // the service is to run it
}

func (a *app) setupCommand() *cobra.Command {
	s := &setupRun{app: a}
	c := a.command(&cobra.Command{
		Use:   "setup",
		Short: "Set up backups: choose sources and a target, test it, and make the first backup",
		Long: `Asks what to back up, where to, how gently and how often, and what a schedule keeps. Then setup
tests the target, creates the repository and its keys, writes the option file, makes the first backup, and proves it:
one file is restored into a temporary folder and compared with the original.

Flags answer questions in advance. With --yes nothing is asked: --repo is required, and the other answers are those of
the option file, or the proposals. All flags that are options are written to the option file.

Setup can be interrupted and run again: it keeps the repository, the snapshots and the option file that exist. Before it
changes an option file, it shows the changes and keeps a copy.

--from is for a machine whose disk was lost: it makes a key of this machine and writes the option file as the newest
backup of the lost one stored it, without secrets. Enter the recovery key in place of the passphrase. An option file
that exists stays. What the jobs need and is not here yet, such as their sources, is listed.

Exit codes are those of backup: 3 if the first backup lacks some files.`,
		PreRunE: func(*cobra.Command, []string) error { return s.checkFiles() },
		Example: `  tidemark setup
  tidemark setup --yes --repo /mnt/disk --recovery-key-file /mnt/usb/key
  tidemark setup --source ~ --repo smb://me@nas/backup --schedule hourly
  tidemark setup --from smb://me@nas/backup`,
	}, func(ctx context.Context, _ []string) error { return s.run(ctx) }, options.GroupPolicy, options.GroupSelection,
		options.GroupJob)
	s.flags = c.Flags()
	c.Flags().StringArrayVar(&s.sources, "source", nil, "folder to back up; repeatable; default: the home folder")
	c.Flags().StringVar(&s.recovery.file, "recovery-key-file", "",
		"write the recovery key to this new file; instead of showing it")
	c.Flags().BoolVar(&s.recovery.confirmed, "recovery-confirmed", false,
		"the recovery key will be kept; do not ask for it")
	c.Flags().StringVar(&s.recover.repository, "from", "",
		"write the option file that the backups in this repository stored; after the loss of a machine")
	c.Flags().StringVarP(&s.recover.host, "host", "H", "",
		"with --from: the lost machine (default: this one, or the only one)")
	c.Flags().StringVar(&s.recover.snapshot, "snapshot", "", "with --from: the snapshot whose option file is wanted")
	c.Flags().BoolVarP(&s.yes, "yes", "y", false, "ask nothing; use the flags, the option file and the proposals")
	help.Rare(c.Flags(), "host", "snapshot", "recovery-confirmed")
	return c
}

func (s *setupRun) run(ctx context.Context) error {
	s.place.KeepTyped()
	s.system = &setup.Host{}
	s.home, _ = s.Env("HOME")
	if s.recover.repository != "" {
		return s.from(ctx)
	}
	if s.recover.host+s.recover.snapshot != "" {
		return usagef("--host and --snapshot belong to --from: name the repository of the lost machine with --from")
	}
	if err := s.mode(); err != nil {
		return err
	}
	if err := s.readFile(); err != nil {
		return err
	}
	proposed, named := s.spec.Repository().Location, s.flags.Changed("repo")
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.noteAccess(newMac(), runtime.GOOS)
	if err := s.settle(ctx, named, proposed); err != nil {
		return err
	}
	if err := s.repository(ctx); err != nil {
		return err
	}
	if err := s.keepLogon(ctx); err != nil {
		return err
	}
	if err := s.writeFile(ctx); err != nil {
		return err
	}
	if err := s.readBack(); err != nil {
		return err
	}
	lacking := s.firstBackup(ctx)
	if lacking != nil && !errors.Is(lacking, errIncomplete) {
		return lacking
	}
	if err := s.prove(ctx); err != nil {
		return err
	}
	return errors.Join(s.finish(ctx), lacking)
}

// noteAccess says, before the first backup, what macOS hides from this terminal. If the target cannot be reached, its
// test names Local Network.
func (s *setupRun) noteAccess(m mac, system string) {
	if system != "darwin" {
		return
	}
	if allowed, hidden := m.fullDisk(s.result.Sources); allowed == event.Denied {
		s.print.Note("macOS hides " + hidden + " and more from this terminal, so this backup will lack it: open System " +
			"Settings, Privacy & Security, Full Disk Access, add the terminal, and run setup again")
	}
}

// checkFiles refuses an option file and a file for the recovery key that exist and are not regular files, before the
// options are read.
func (s *setupRun) checkFiles() error {
	if _, _, err := options.Resolve(s.flags, s.Env, optionfile.ReadRegular); errors.Is(err, optionfile.ErrNotRegular) {
		return &usageError{err}
	}
	if err := optionfile.Regular(s.recovery.file); s.recovery.file != "" && err != nil {
		return usagef("--recovery-key-file: %w", err)
	}
	return nil
}

// mode decides whether questions are asked.
func (s *setupRun) mode() error {
	if s.recovery.file != "" && s.recovery.confirmed {
		return usagef("--recovery-key-file and --recovery-confirmed exclude each other: choose one")
	}
	terminal := s.terminal()
	switch {
	case s.yes:
		return nil
	case s.spec.Output().JSON:
		return usagef("with --json nothing is asked: add --yes, and name the target with --repo")
	case terminal == nil:
		return usagef("no terminal to ask on: add --yes, and name the target with --repo")
	}
	s.dialog = &setup.Dialog{Person: terminal, System: s.system, Home: s.home}
	terminal.Say("Set up backups. Enter accepts a proposal; Ctrl-C stops, and a later run goes on.\n")
	return nil
}

// readFile reads the option file in effect.
func (s *setupRun) readFile() (err error) {
	if s.spec.File() == "" {
		return nil
	}
	content, err := os.ReadFile(s.spec.File())
	if err != nil {
		return fmt.Errorf("read the option file: %w", err)
	}
	s.current, err = options.ParseFile(s.spec.File(), content, s.server(s.flags))
	return err
}

// server returns the name of the stanza in use, "" for the usual one.
func (a *app) server(flags *pflag.FlagSet) string {
	if f := flags.Lookup("server-name"); f != nil && f.Changed {
		return f.Value.String()
	}
	name, _ := a.Env("TIDEMARK_SERVER_NAME")
	return name
}

// answer collects the answers: of flags, of the option file, and of the person.
func (s *setupRun) answer(ctx context.Context) (err error) {
	answers := &s.result
	if answers.Sources, err = s.askSources(ctx); err != nil {
		return err
	}
	if !s.set("REPOSITORY", "exclude-caches") {
		patterns, yes := setup.Excludes(s.home, runtime.GOOS, answers.Sources), true
		if s.dialog != nil {
			yes, err = s.dialog.Exclude(ctx, patterns)
		}
		if err == nil && yes {
			err = errors.Join(s.give("exclude-caches", "yes"), s.give("exclude", patterns...))
		}
		if err != nil {
			return err
		}
	}
	if answers.Repository, err = s.askTarget(ctx, answers.Sources); err != nil {
		return err
	}
	answers.Policy = "auto"
	if io := s.spec.IO(); !io.Auto {
		answers.Policy = io.Policy.String()
	}
	if s.dialog != nil && !s.flags.Changed("policy") {
		if answers.Policy, err = s.dialog.Policy(ctx, answers.Policy); err != nil {
			return err
		}
	}
	schedule := s.spec.Job().Schedule
	if s.dialog != nil && !s.flags.Changed("schedule") {
		chosen, err := s.dialog.Schedule(ctx, schedule, checkSchedule)
		if err == nil && chosen != "" && chosen != schedule {
			schedule, err = chosen, s.give("schedule", chosen)
		}
		if err != nil {
			return err
		}
	}
	return s.answerOther(ctx, schedule)
}

// set reports whether the option file has a keyword, or the command line a flag.
func (s *setupRun) set(keyword, flag string) bool {
	return s.flags.Changed(flag) ||
		slices.ContainsFunc(s.current, func(l options.FileLine) bool { return l.Keyword == keyword })
}

// give makes answers values of a flag.
func (s *setupRun) give(flag string, values ...string) error {
	for _, value := range values {
		if err := s.flags.Set(flag, value); err != nil {
			return usagef("--%s %s: %w", flag, value, err)
		}
	}
	return nil
}

func checkSchedule(text string) error {
	_, err := job.ParseSchedule(text)
	return err
}

func (s *setupRun) askSources(ctx context.Context) (all []string, err error) {
	if len(s.sources) > 0 {
		return s.namedSources()
	}
	proposed := setup.Sources(s.current)
	if len(proposed) == 0 && filepath.IsAbs(s.home) {
		home := filepath.Clean(s.home)
		if real, err := filepath.EvalSymlinks(home); err == nil && linkedSource(home) != nil {
			home = real
		}
		proposed = []string{home}
	}
	switch {
	case s.dialog != nil:
		return s.dialog.Sources(ctx, proposed)
	case len(proposed) == 0:
		return nil, usagef("name the folders to back up with --source: this user has no home directory")
	}
	return proposed, nil
}

// namedSources returns the absolute paths of --source.
func (s *setupRun) namedSources() (all []string, err error) {
	for _, path := range s.sources {
		absolute, err := absoluteSource(path)
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(absolute); err != nil {
			return nil, fmt.Errorf("source %s: no such file or directory: check the path", human.Printable(path))
		}
		if err := linkedSource(absolute); err != nil {
			return nil, &usageError{err}
		}
		all = append(all, absolute)
	}
	return all, nil
}

// askTarget returns the location of the repository.
func (s *setupRun) askTarget(ctx context.Context, sources []string) (string, error) {
	now := s.spec.Repository()
	if s.flags.Changed("repo") || s.dialog == nil && now.Named {
		return now.Location, nil
	}
	places := s.places(sources)
	if s.dialog != nil {
		return s.dialog.Target(ctx, places, now.Location, sources)
	}
	var found []string
	for _, p := range places {
		found = append(found, human.Printable(p.Repository)+" on "+p.Text())
	}
	if len(found) == 0 {
		return "", usagef("name the target with --repo: a folder on another disk, or an address (smb://, s3://, sftp://)")
	}
	return "", usagef("name the target with --repo; found: %s", strings.Join(found, "; "))
}

// places lists the mounted disks and shares for the repository.
func (s *setupRun) places(sources []string) []setup.Place {
	places, err := setup.Places(s.system, sources)
	if err != nil {
		s.print.Note("the mounted disks cannot be listed: " + err.Error())
	}
	return places
}

// settle adopts and checks the answers, and tests the target. If a target that a person chose is not usable, it asks
// for another one; proposed is the location that it proposes.
func (s *setupRun) settle(ctx context.Context, named bool, proposed string) error {
	answers := &s.result
	for n := 1; ; n++ {
		err := s.adopt()
		if err == nil {
			err = s.checkResult()
		}
		if err == nil {
			err = s.test(ctx)
		}
		if !errors.Is(err, errUnfit) || s.dialog == nil || named || n == place.Attempts {
			return err
		}
		s.print.Show(err.Error() + "\n")
		if answers.Repository, err = s.dialog.Target(ctx, s.places(answers.Sources), proposed, answers.Sources); err != nil {
			return err
		}
	}
}

// adopt makes the answers the options of this run, as if they were flags.
func (s *setupRun) adopt() error {
	answers := &s.result
	if err := errors.Join(s.give("repo", answers.Repository), s.give("policy", answers.Policy)); err != nil {
		return err
	}
	if err := s.useFlags(); err != nil {
		return err
	}
	answers.Repository = s.at.String()
	return nil
}

// useFlags makes the flags the options of this run.
func (s *setupRun) useFlags() error {
	spec, _, err := options.Resolve(s.flags, s.Env, os.ReadFile)
	if err == nil {
		s.use(spec)
		s.at, err = s.place.Location()
	}
	return err
}

// readBack reads the options again, now with the option file: a backup without paths is one of the sources, unless the
// person left the file as it was.
func (s *setupRun) readBack() error {
	if err := s.resolveAgain(); err != nil {
		return err
	}
	s.result.Plain = slices.Equal(slices.Sorted(slices.Values(s.spec.Domain())),
		slices.Sorted(slices.Values(s.result.Sources)))
	return nil
}

// test tests the target, or the folder in which it will be made.
func (s *setupRun) test(ctx context.Context) error {
	if source := ""; s.dialog == nil && !s.at.OnServer() {
		if source = setup.SameDisk(s.system, s.at.Folder, s.result.Sources); source != "" {
			s.print.Note("warning: the repository is on the " + setup.OnSameDisk(source))
		}
	}
	s.applyPolicy(options.Attended)
	report, err := s.probeParent(ctx, s.at)
	if err != nil {
		return err
	}
	if err := s.print.Report(output.Tested(report)); err != nil {
		return err
	}
	return unfit(report)
}

// edit returns the option file in effect with the answers. A file that this user cannot write, as that of root in /etc,
// becomes a new one in the home directory. filled reports whether the file in effect is not empty.
func (s *setupRun) edit() (f *optionfile.File, filled bool, err error) {
	path, content := s.spec.File(), []byte(nil)
	if path != "" {
		if content, err = optionfile.ReadRegular(path); err != nil {
			return nil, false, fmt.Errorf("read the option file: %w", err)
		}
	}
	settings := setup.Settings(s.result.Repository, s.result.Policy, s.result.Sources, s.spec.Given())
	f, err = optionfile.Edit(path, content, s.server(s.flags), settings)
	filled = len(content) > 0
	if err != nil || len(f.Changes) == 0 {
		return f, filled, err
	}
	if path == "" || unix.Access(path, unix.W_OK) != nil {
		if f.Path = options.UserFile(s.Env); f.Path != path {
			f.Fresh("setup")
		}
	}
	return f, filled, nil
}

// checkResult reads the options and the rules as the new option file sets them, before anything is made.
func (s *setupRun) checkResult() error {
	f, _, err := s.edit()
	if err != nil {
		return err
	}
	if err := optionfile.Regular(f.Path); err != nil {
		return usagef("write the option file: %w", err)
	}
	inEffect := s.spec.File()
	spec, _, err := options.Resolve(s.flags, s.Env, func(path string) ([]byte, error) {
		if path == f.Path || path == inEffect {
			return f.New, nil
		}
		return os.ReadFile(path)
	})
	if err != nil {
		return err
	}
	if _, _, err := spec.Rules(os.ReadFile, s.Env); err != nil {
		return &usageError{err}
	}
	jobs, err := job.Load(f.Path, f.New, s.Env, os.ReadFile)
	if err != nil {
		return &usageError{err}
	}
	s.result.Scheduled = len(jobs) > 0 // without a schedule there is no job
	return nil
}

// writeFile writes the option file. A person is asked before an existing one changes.
func (s *setupRun) writeFile(ctx context.Context) error {
	f, filled, err := s.edit()
	if err != nil {
		return err
	}
	s.result.File = s.spec.File()
	if len(f.Changes) == 0 {
		return nil
	}
	if filled {
		if err := s.print.Report(output.Changes(f)); err != nil {
			return err
		}
		if s.dialog != nil {
			yes, err := s.dialog.Yes(ctx, "Change the option file? A copy is kept.", true)
			if err != nil || !yes {
				s.runs = s.runs && yes
				return err
			}
		}
	}
	s.result.Copy, err = f.SaveWithCopy()
	s.result.File, s.result.Written = f.Path, err == nil
	return err
}
