package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/notify"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

func (a *app) jobCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "job",
		Short: "Define and steer the jobs of the service",
		Long: `A job is a backup by a schedule. It is a stanza of the option file: SERVERNAME with its name, and the lines
below it. The lines
before the first stanza apply to all jobs. The commands that change a stanza keep all other lines and comments.

The running service obeys 'start', 'stop', 'pause' and 'resume'. 'tidemark status' shows its jobs.`,
	}, "add, list, show, edit, remove, import, start, stop, pause, resume or test-notify", append([]*cobra.Command{
		a.jobAddCommand(), a.jobListCommand(), a.jobShowCommand(), a.jobEditCommand(), a.jobRemoveCommand(),
		a.jobImportCommand(),
		a.jobTestNotifyCommand(),
	}, a.steerCommands()...)...)
}

// jobGroups are the groups of options that the stanza of a job can have, beside those that all commands have.
func jobGroups() []options.Group {
	return append(backupGroups(), options.GroupJob, options.GroupNotify)
}

// jobEditor returns the editor of the option file in effect. Without one, it is the user's, which is made.
func (a *app) jobEditor() (*job.Editor, error) {
	e := &job.Editor{Path: a.spec.File(), Env: a.Env, Read: os.ReadFile}
	made := e.Path == ""
	if made {
		e.Path = options.UserFile(a.Env)
	}
	path, err := filepath.Abs(e.Path)
	if err != nil {
		return nil, fmt.Errorf("find the option file: %w", err)
	}
	e.Path = path
	switch e.Content, err = optionfile.ReadRegular(path); {
	case errors.Is(err, optionfile.ErrNotRegular):
		return nil, &usageError{err}
	case err != nil && !(made && errors.Is(err, fs.ErrNotExist)):
		return nil, fmt.Errorf("read the option file: %w", err)
	}
	return e, nil
}

// definedJobs returns the jobs of the option file in effect, and those that are not valid.
func (a *app) definedJobs() ([]*job.Job, []job.Invalid, string, error) {
	if a.spec.File() == "" {
		return nil, nil, "", nil
	}
	e, err := a.jobEditor()
	if err != nil {
		return nil, nil, "", err
	}
	all, invalid, err := job.LoadValid(e.Path, e.Content, e.Env, e.Read)
	if err != nil {
		return nil, nil, "", &usageError{err}
	}
	return all, invalid, e.Path, nil
}

// namedJob returns one of them.
func (a *app) namedJob(name string) (*job.Job, error) {
	all, invalid, _, err := a.definedJobs()
	if err != nil {
		return nil, err
	}
	for _, one := range invalid {
		if strings.EqualFold(one.Name, name) {
			return nil, &usageError{one.Err}
		}
	}
	j, err := job.Find(all, name)
	if err != nil {
		return nil, &usageError{err}
	}
	return j, nil
}

// jobNames completes the names of jobs.
func (a *app) jobNames(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if len(args) == 0 && a.resolve(c) == nil {
		all, invalid, _, _ := a.definedJobs() // a shell has no place for an error
		for _, j := range all {
			names = append(names, j.Name)
		}
		for _, one := range invalid {
			names = append(names, one.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// jobSources adds the flags of the sources of a job.
func jobSources(flags *pflag.FlagSet) {
	flags.StringArray("source", nil, "file or directory to back up; repeatable")
	flags.Bool("force", false, "accept sources that do not exist now, or are symbolic links")
	help.Topic(flags, options.TopicWhat, "source")
	help.Rare(flags, "force")
}

// onlyJobName refuses all arguments but the name of a job.
func onlyJobName(c *cobra.Command, args []string) error {
	if len(args) < 2 {
		return arguments(1, 1)(c, args)
	}
	return fmt.Errorf("only the name of the job stands alone, and %q does too: write sources as --source PATH, and the "+
		"value of a switch after an equals sign", args[1])
}

// jobSettings returns the lines of a job for flags, those of jobSources too. With all, the keys and logons of the
// environment are among them, which the service does not have.
func (a *app) jobSettings(flags *pflag.FlagSet, all bool) ([]options.FileLine, error) {
	given := a.spec.Given()
	sources, _ := flags.GetStringArray("source") // an import has none
	force, _ := flags.GetBool("force")
	if !all {
		var keywords []string
		flags.Visit(func(f *pflag.Flag) { keywords = append(keywords, options.LineKeyword(f.Name)) })
		given = slices.DeleteFunc(given, func(s options.FileLine) bool { return !slices.Contains(keywords, s.Keyword) })
	}
	for i := range given {
		if given[i].Keyword == options.LineKeyword("repo") {
			at, err := location.Parse(given[i].Values[0]) // its disk may be away
			if err != nil {
				return nil, &usageError{err}
			}
			given[i].Values = []string{at.String()}
		}
	}
	var domain []string
	for _, path := range sources {
		absolute, err := absoluteSource(path)
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(absolute); missing(err) && !force {
			return nil, usagef("source %s does not exist: correct it, or accept it with --force", human.Printable(absolute))
		}
		if err := linkedSource(absolute); err != nil && !force {
			return nil, usagef("%w; or accept the link with --force", err)
		}
		domain = append(domain, absolute)
	}
	if i := slices.IndexFunc(given, func(l options.FileLine) bool { return l.Keyword == "DOMAIN" }); i >= 0 {
		given[i].Values = append(given[i].Values, domain...)
	} else if len(domain) > 0 {
		given = append(given, options.FileLine{Keyword: "DOMAIN", Values: domain})
	}
	return given, nil
}

// editOptions changes the option file. Where another process writes it meanwhile, the change is made again to what that
// one wrote.
func (a *app) editOptions(ctx context.Context, change func(*job.Editor) (*optionfile.File, error)) (*optionfile.File,
	error) {
	for left := 20; ; left-- {
		e, err := a.jobEditor()
		if err != nil {
			return nil, err
		}
		f, err := change(e)
		if err != nil {
			return nil, &usageError{err}
		}
		if len(f.Changes) == 0 {
			a.print.Note("the job is so already: nothing was changed")
			return f, nil
		}
		if err = a.saveJobs(ctx, f); left == 0 || !errors.Is(err, optionfile.ErrChanged) {
			return f, err
		}
	}
}

// saveJobs shows the changes of the option file, writes it, and notifies a service that uses it.
func (a *app) saveJobs(ctx context.Context, f *optionfile.File) error {
	if len(f.Content) == 0 {
		f.Fresh("job")
	}
	if err := f.Save(); errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run the command as the owner of the file, or name another one with --option-file", err)
	} else if err != nil {
		return err
	}
	a.reloadService(ctx, f)
	return a.print.Report(output.Changes(f))
}

// reloadService makes a running service read its option file. Without one there is nothing to do, and a service that
// does not answer looks at its file each minute.
func (a *app) reloadService(ctx context.Context, f *optionfile.File) {
	dir, err := a.runtimeDir()
	if err != nil {
		return
	}
	s := control.Daemon(dir)
	if d, err := s.Status(ctx); err != nil || d.Options != f.Path {
		return
	}
	if _, err := s.Do(ctx, control.Command{Action: control.Reload, Job: f.Removed}); err != nil {
		a.print.Note(fmt.Sprintf("warning: the service keeps its jobs: %v", err))
	}
}

// showJob prints a job as it is after a change.
func (a *app) showJob(f *optionfile.File, name string) error {
	all, invalid, err := job.LoadValid(f.Path, f.New, a.Env, os.ReadFile)
	for _, one := range invalid {
		err = errors.Join(err, one.Err)
	}
	if err != nil {
		a.print.Note("warning: the option file has other jobs that are not valid: " + err.Error())
	}
	j, err := job.Find(all, name)
	if err != nil {
		return err
	}
	return a.print.Print(output.DefinedJobs([]*job.Job{j}, nil, f.Path, time.Now()))
}

func (a *app) jobShowCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a job: its next five times and its options with their origins",
		Long: `Shows the options of a job that are set, and those of the service. The times are those of the schedule: a run
starts up to
--jitter later, and waits for its conditions.`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.jobNames,
	}, func(_ context.Context, args []string) error {
		j, err := a.namedJob(args[0])
		if err != nil {
			return err
		}
		return a.print.Print(output.DefinedJob(j, time.Now()))
	})
}

func (a *app) jobListCommand() *cobra.Command {
	return lenient(a.command(&cobra.Command{
		Use:   "list",
		Short: "List the jobs of the option file with their next times",
	}, func(context.Context, []string) error {
		all, invalid, file, err := a.definedJobs()
		if err != nil {
			return err
		}
		return a.print.Print(output.DefinedJobs(all, invalid, file, time.Now()))
	}))
}

func (a *app) jobAddCommand() *cobra.Command {
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "add [flags] --source PATH NAME",
		Short: "Add a job to the option file",
		Long: `Adds a job, with a line for each flag and DOMAIN with the sources. --schedule is required; the repository and
the sources are too, unless the lines before the first stanza have them. The job is checked before the file changes.

In an option file without stanzas, the lines that are there become the job 'default'.`,
		Example: `  tidemark job add home --schedule hourly --repo /mnt/disk/backup --source ~
  tidemark job add nas --schedule hourly --repo smb://nas/backup --source /srv`,
		Args: onlyJobName,
	}, func(ctx context.Context, args []string) error {
		settings, err := a.jobSettings(c.Flags(), true)
		if err != nil {
			return err
		}
		f, err := a.editOptions(ctx, func(e *job.Editor) (*optionfile.File, error) { return e.Add(args[0], settings) })
		if err != nil {
			return err
		}
		if a.spec.Keys().Password != "" || a.spec.Share().Password != "" {
			a.print.Note("warning: the service does not get the passwords of this environment: " +
				"add them with 'tidemark job edit --password-file' or --smb-password-file")
		}
		return a.showJob(f, args[0])
	}, jobGroups()...)
	jobSources(c.Flags())
	return c
}

func (a *app) jobRemoveCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a job from the option file; its repository is kept",
		Long: `Removes the stanza of a job. Its repository and snapshots are kept. The job 'default' of an option file
without stanzas loses its
schedule only.`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.jobNames,
	}, func(ctx context.Context, args []string) error {
		kept := "the repository of the job is kept"
		if j, err := a.namedJob(args[0]); err == nil { // one that is not valid can be removed too
			kept = fmt.Sprintf("the repository %s and its snapshots are kept", human.Printable(j.Repository))
		}
		_, err := a.editOptions(ctx, func(e *job.Editor) (*optionfile.File, error) { return e.Remove(args[0]) })
		if err != nil {
			return err
		}
		a.print.Note(kept)
		return nil
	})
}

// jobTestNotifyCommand is a verb of the command job.
func (a *app) jobTestNotifyCommand() *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "test-notify [flags] NAME",
		Short: "Send a test message in each way that a job has",
		Long: `Sends a test message by mail, to the webhook, to the healthcheck and to the desktop, as far as the options of
the job name them, and
prints the results. The exit code is 1 if one failed.`,
		Args: arguments(1, 1),
	}, func(ctx context.Context, args []string) error { return a.testNotify(ctx, args[0]) })
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[0] != job.Default {
			if err := c.Flags().Set("server-name", args[0]); err != nil {
				return usagef("%s: %v", args[0], err)
			}
		}
		return run(c, args)
	}
	return c
}

func (a *app) testNotify(ctx context.Context, name string) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the name of this machine: %w", err)
	}
	o := a.spec.Notify()
	results := notify.Test(ctx, &o, host, name, time.Now())
	if err := a.print.Print(output.NotifyTests(results)); err != nil {
		return err
	}
	sent := 0
	for _, r := range results {
		if r.Error != "" {
			return errors.New("not every message was sent")
		}
		if r.Skipped == "" {
			sent++
		}
	}
	if sent == 0 {
		return fmt.Errorf("job %s has no way to notify: set NOTIFYMAIL, NOTIFYWEBHOOK or HEALTHCHECK in its stanza", name)
	}
	return nil
}
