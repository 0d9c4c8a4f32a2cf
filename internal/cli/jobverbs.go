package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

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
		return a.print.Print(&output.DefinedJob{Job: j, Now: time.Now()})
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
		return a.print.Print(&output.DefinedJobs{List: all, Invalid: invalid, File: file, Now: time.Now()})
	}))
}

func (a *app) jobAddCommand() *cobra.Command {
	var sources jobSources
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
		settings, err := a.jobSettings(c.Flags(), &sources, true)
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
	sources.register(c.Flags())
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
