package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

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
