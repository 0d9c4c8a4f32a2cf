package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/scope"
)

func (a *app) jobImportCommand() *cobra.Command {
	var name string
	var timeMachine bool
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "import [flags] [FILE]",
		Short: "Make jobs of another program's configuration",
		Long: `Makes a job of each stanza of an option file of IBM's client, with its rules. A dsm.opt and a dsm.sys
beside it belong together. Options without meaning here are listed. Flags apply to each job; --repo is required unless
the file has REPOSITORY. Without --schedule a job is started by hand.

--from-time-machine makes one job of the settings of Time Machine (macOS only, not tested there yet): hourly, with its
excluded paths.`,
		Example: `  tidemark job import dsm.sys --repo /mnt/disk/backup --schedule hourly
  tidemark job import --from-time-machine --repo smb://me@nas/backup`,
		Args: arguments(0, 1),
	}, func(ctx context.Context, args []string) error {
		var found []*job.Imported
		var err error
		switch {
		case timeMachine == (len(args) > 0):
			return usagef("name an option file such as dsm.sys, or give --from-time-machine; not both")
		case timeMachine:
			found, err = fromTimeMachine(ctx, name)
		default:
			found, err = fromOptionFile(args[0], name)
		}
		if err != nil {
			return err
		}
		settings, err := a.jobSettings(c.Flags(), true)
		if err != nil {
			return err
		}
		return a.importJobs(ctx, found, settings)
	}, jobGroups()...)
	c.Flags().StringVar(&name, "name", "", "name of the job; for a file with one stanza or none")
	c.Flags().BoolVar(&timeMachine, "from-time-machine", false, "make a job of the settings of Time Machine; macOS only")
	return c
}

// importJobs adds jobs to the option file, and reports what has no meaning.
func (a *app) importJobs(ctx context.Context, found []*job.Imported, settings []options.FileLine) error {
	e, err := a.jobEditor()
	if err != nil {
		return err
	}
	f, err := e.Import(found, settings)
	named := func(s options.FileLine) bool { return s.Keyword == "REPOSITORY" }
	if errors.Is(err, job.ErrIncomplete) && !slices.ContainsFunc(settings, named) {
		err = fmt.Errorf("%w, or give --repo", err)
	}
	if err != nil {
		return &usageError{err}
	}
	if err := a.saveJobs(ctx, f); err != nil {
		return err
	}
	for _, one := range found {
		for _, note := range one.Notes {
			a.print.Note(fmt.Sprintf("job %s: %s", one.Name, note))
		}
		if err := a.showJob(f, one.Name); err != nil {
			return err
		}
	}
	return nil
}

// fromOptionFile returns the jobs of an option file of IBM's client.
func fromOptionFile(path, name string) ([]*job.Imported, error) {
	content, err := optionfile.ReadRegular(path)
	if err != nil {
		return nil, fmt.Errorf("read the option file to import: %w", err)
	}
	found, err := job.ImportOptions(path, content, name, os.ReadFile)
	if err != nil {
		return nil, &usageError{err}
	}
	return found, nil
}

// fromTimeMachine returns the job of the settings of Time Machine.
func fromTimeMachine(ctx context.Context, name string) ([]*job.Imported, error) {
	if runtime.GOOS != "darwin" {
		return nil, usagef("--from-time-machine needs macOS: run it on the Mac, or name an option file to import")
	}
	settings, err := scope.OutputOf(ctx, "defaults", "export", "/Library/Preferences/com.apple.TimeMachine", "-")
	if err != nil {
		return nil, err
	}
	destinations, err := scope.OutputOf(ctx, "tmutil", "destinationinfo", "-X")
	if err != nil {
		return nil, err
	}
	one, err := job.ImportTimeMachine(cmp.Or(name, "time-machine"), settings, destinations)
	return []*job.Imported{one}, err
}
