package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

func (a *app) jobEditCommand() *cobra.Command {
	var unset []string
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "edit [flags] NAME",
		Short: "Change a job, by flags or in an editor",
		Long: `Changes the lines of a job: each flag replaces the line of its option, and --source replaces DOMAIN. A flag
that can be given several times adds a line. --unset removes the lines of an option; then its default or the line
before the first stanza applies.

Without flags, the option file is opened in the editor that VISUAL or EDITOR names. The result is checked before it
replaces the file.`,
		Example: `  tidemark job edit home --schedule 'daily 02:30,14:30'
  tidemark job edit home --unset quiet-hours
  EDITOR=nano tidemark job edit home`,
		Args:              onlyJobName,
		ValidArgsFunction: a.jobNames,
	}, func(ctx context.Context, args []string) error {
		settings, err := a.jobSettings(c.Flags(), false)
		if err != nil {
			return err
		}
		if len(settings) == 0 && len(unset) == 0 {
			return a.editJobs(ctx, args[0])
		}
		f, err := a.editOptions(ctx, func(e *job.Editor) (*optionfile.File, error) {
			return e.Change(args[0], settings, unset)
		})
		if err != nil {
			return err
		}
		return a.showJob(f, args[0])
	}, jobGroups()...)
	jobSources(c.Flags())
	c.Flags().StringArrayVar(&unset, "unset", nil, "remove the lines of this option; repeatable")
	help.Topic(c.Flags(), options.TopicService, "unset")
	return c
}

// editJobs opens the option file in an editor and replaces it if the result is valid.
func (a *app) editJobs(ctx context.Context, name string) error {
	e, err := a.jobEditor()
	if err != nil {
		return err
	}
	if _, err := a.namedJob(name); errors.Is(err, job.ErrNoJob) {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-job-")
	if err != nil {
		return fmt.Errorf("make a file to edit: %w", err)
	}
	path := filepath.Join(dir, filepath.Base(e.Path))
	f := &optionfile.File{Path: e.Path, Content: e.Content}
	err = os.WriteFile(path, e.Content, 0o600)
	if err == nil {
		err = a.runEditor(ctx, path)
	}
	if err == nil {
		f.New, err = os.ReadFile(path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("edit the option file: %w", err), os.RemoveAll(dir))
	}
	if string(f.New) == string(f.Content) {
		a.print.Note("nothing was changed")
		return os.RemoveAll(dir)
	}
	if _, err := job.Load(e.Path, f.New, e.Env, e.Read); err != nil {
		return usagef("the option file was not changed; the edited text is in %s: %w", path, err)
	}
	if err := f.Save(); err != nil {
		return fmt.Errorf("the edited text is in %s: %w", path, err)
	}
	a.reloadService(ctx, f)
	return os.RemoveAll(dir)
}

// runEditor opens a file in the user's editor.
func (a *app) runEditor(ctx context.Context, path string) error {
	visual, _ := a.Env("VISUAL")
	editor, _ := a.Env("EDITOR")
	c := exec.CommandContext(ctx, "sh", "-c", cmp.Or(visual, editor, "vi")+` "$1"`, "sh", path)
	c.Stdin, c.Stdout, c.Stderr = a.In, a.Out, a.Err
	c.Env = options.WithoutSecrets(os.Environ())
	if err := c.Run(); err != nil {
		return fmt.Errorf("run the editor of VISUAL or EDITOR: %w", err)
	}
	return nil
}
