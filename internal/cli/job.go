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
	return []options.Group{
		options.GroupJob, options.GroupNotify, options.GroupPolicy, options.GroupParallel, options.GroupTransfer,
		options.GroupCompression, options.GroupReading, options.GroupSelection,
	}
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

// jobSources are the sources of a job.
type jobSources struct {
	paths []string
	force bool // also those that do not exist
}

// register adds the flags.
func (s *jobSources) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.paths, "source", nil, "file or directory to back up; repeatable")
	flags.BoolVar(&s.force, "force", false, "accept sources that do not exist now, or are symbolic links")
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

// jobSettings returns the lines of a job for flags and sources. With all, the keys and logons of the environment are
// among them, which the service does not have.
func (a *app) jobSettings(flags *pflag.FlagSet, sources *jobSources, all bool) ([]options.Setting, error) {
	given := a.spec.Given()
	if !all {
		var keywords []string
		flags.Visit(func(f *pflag.Flag) { keywords = append(keywords, options.LineKeyword(f.Name)) })
		given = slices.DeleteFunc(given, func(s options.Setting) bool { return !slices.Contains(keywords, s.Keyword) })
	}
	for i := range given {
		if given[i].Keyword == options.LineKeyword("repo") {
			at, err := location.Parse(given[i].Value) // its disk may be away
			if err != nil {
				return nil, &usageError{err}
			}
			given[i].Value = at.String()
		}
	}
	for _, path := range sources.paths {
		if err := errors.Join(checkLocalSource(path), linkWithSlash(path)); err != nil {
			return nil, &usageError{err}
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find source %s: %w", path, err)
		}
		if _, err := os.Lstat(absolute); missing(err) && !sources.force {
			return nil, usagef("source %s does not exist: correct it, or accept it with --force", human.Printable(absolute))
		}
		if err := linkedSource(absolute); err != nil && !sources.force {
			return nil, usagef("%w; or accept the link with --force", err)
		}
		given = append(given, options.Setting{Keyword: "DOMAIN", Value: absolute, List: true})
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
	return a.print.Report(&output.Changes{File: f})
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
	return a.print.Print(&output.DefinedJobs{List: []*job.Job{j}, File: f.Path, Now: time.Now()})
}
