package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/known"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/target"
)

func (a *app) targetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "target",
		Short: "Try what a disk or a mounted share does that is to hold a repository",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(c, args[0])
			}
			return usagef("say what to do: check; see 'tidemark target --help'")
		},
	}
	c.AddCommand(a.targetCheckCommand())
	return c
}

func (a *app) targetCheckCommand() *cobra.Command {
	var speed bool
	c := a.command(&cobra.Command{
		Use:   "check [flags] [PATH]",
		Short: "Probe a folder, and measure how fast it takes files",
		Long: `Tries in a folder what a repository there depends on: whether a rename replaces a file at one moment, whether flushing
flushes, what becomes of names, whose clock stamps the files, how much space is left; and says whether the place is safe,
or degraded because of what, and what tidemark does about it. Without PATH the place of the repository is checked.

Then it writes one file of 50 MB, and 500 files of 4 KB at once, each flushed, and prints the speed. All is done in a
temporary folder, which is removed.

Exit code 0: safe. 3: degraded, and a repository can be kept there. 1: it cannot, or the check failed.`,
		Example: `  tidemark target check /mnt/nas/backup
  tidemark target check --speed=false /Volumes/X`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, args []string) error {
		location := a.spec.Repository().Location
		if len(args) > 0 {
			location = args[0]
		}
		return a.checkTarget(ctx, location, speed)
	}, options.GroupPolicy)
	c.Flags().BoolVar(&speed, "speed", true, "measure how fast it takes files")
	return c
}

// targetFolder returns the folder that a location is.
func targetFolder(location string) (string, error) {
	scheme, rest, found := strings.Cut(location, "://")
	switch {
	case location == "":
		return "", usagef("name a folder: tidemark target check PATH")
	case found && scheme != "file":
		return "", usagef("%s:// has no folder that could be probed: tidemark is itself the client there, and proves each file "+
			"that it writes; mount the share and name the folder to have it probed", scheme)
	case found:
		location = rest
	default:
		location = strings.TrimPrefix(location, "local:")
	}
	path, err := filepath.Abs(location)
	if err != nil {
		return "", fmt.Errorf("find target: %w", err)
	}
	return path, nil
}

func (a *app) checkTarget(ctx context.Context, location string, speed bool) error {
	path, err := targetFolder(location)
	if err != nil {
		return err
	}
	a.yield(options.Attended)
	report, err := target.Run(ctx, path, target.Options{Pass: a.gate(nil, path)})
	if err != nil {
		return err
	}
	if err := a.print.Print(&output.Target{Report: report}); err != nil {
		return err
	}
	if report.Verdict() == target.IsUnfit {
		return fmt.Errorf("%w: %s is %s", errUnfit, path, report.Sentence())
	}
	if speed {
		if err := a.measureTarget(ctx, path, a.print.Print); err != nil {
			return err
		}
	}
	if report.Verdict() == target.IsDegraded {
		return fmt.Errorf("%w: %s is %s", errDegraded, path, report.Sentence())
	}
	return nil
}

// measureTarget measures how fast a folder takes files, and says it through say.
func (a *app) measureTarget(ctx context.Context, path string, say func(output.Record) error) error {
	speed, err := target.MeasureFolder(ctx, path, a.gate(nil, path))
	if err != nil {
		return err
	}
	return say(&output.Destination{Speed: speed})
}

// checkDestination does so before a backup that asks for it.
func (a *app) checkDestination(ctx context.Context) error {
	path, err := targetFolder(a.spec.Repository().Location)
	if err != nil {
		return err
	}
	return a.measureTarget(ctx, path, a.print.Tell)
}

// lookAtTarget does before a backup what is to be done about its target.
func (a *app) lookAtTarget(ctx context.Context, f *backupFlags, id string) error {
	if f.dryRun {
		return nil
	}
	a.watchTarget(ctx, id)
	if f.checkTarget {
		return a.checkDestination(ctx)
	}
	return nil
}

// watchTarget probes the folder of the repository id when it is new, or mounted from elsewhere than it was last time, and
// notes what is not as it should be. Nothing depends on success: what is wrong shows when packs are written.
func (a *app) watchTarget(ctx context.Context, id string) {
	path, err := targetFolder(a.spec.Repository().Location)
	cache := a.spec.Cache()
	if err != nil || !cache.Enabled || cache.Dir == "" {
		return // no folder, or it would be probed each time
	}
	report, err := known.Probe(ctx, path, filepath.Join(cache.Dir, id), a.gate(nil, path))
	if err != nil && ctx.Err() == nil {
		a.print.Note("the target was not probed, or will be again: " + err.Error())
	}
	if report == nil {
		return
	}
	for _, p := range report.Because() {
		a.print.Note(fmt.Sprintf("the target is %s: %s: %s (%s)", report.Verdict(), p.Name, p.Evidence, p.Remedy))
	}
}
