package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/folders"
	"github.com/tidemark-backup/tidemark/internal/cli/known"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/target"
)

func (a *app) targetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "target",
		Short: "Try what a disk or a share does that is to hold a repository",
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
		Use:   "check [flags] [PATH|smb://...]",
		Short: "Probe a folder or a share, and measure how fast it takes files",
		Long: `Tries in a folder what a repository there depends on: whether a rename replaces a file at one moment, whether flushing
flushes, what becomes of names, whose clock stamps the files, how much space is left; and says whether the place is safe,
or degraded because of what, and what tidemark does about it. The folder may be one of a share, mounted or as an address
smb://user@host/share/path. Without PATH the place of the repository is checked.

Then it writes one file of 50 MB, and 500 files of 4 KB at once, each flushed, and prints the speed. All is done in a
temporary folder, which is removed.

Exit code 0: safe. 3: degraded, and a repository can be kept there. 1: it cannot, or the check failed.`,
		Example: `  tidemark target check /mnt/nas/backup
  tidemark target check smb://me@nas/backup
  tidemark target check --speed=false /Volumes/X`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: map[string]string{folders.TakesAddress: "PATH"},
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

// targetAt returns the place that a location is.
func targetAt(location string) (place, error) {
	if location == "" {
		return place{}, usagef("name a folder or a share: tidemark target check PATH|smb://user@host/share/path")
	}
	return placeAt(location)
}

func (a *app) checkTarget(ctx context.Context, location string, speed bool) error {
	at, err := targetAt(location)
	if err != nil {
		return err
	}
	a.yield(options.Attended)
	report, err := a.probeTarget(ctx, at)
	if err != nil {
		return err
	}
	if err := a.print.Print(&output.Target{Report: report}); err != nil {
		return err
	}
	if report.Verdict() == target.IsUnfit {
		return fmt.Errorf("%w: %s is %s", errUnfit, at, report.Sentence())
	}
	if speed {
		if err := a.measureTarget(ctx, at, a.print.Print); err != nil {
			return err
		}
	}
	if report.Verdict() == target.IsDegraded {
		return fmt.Errorf("%w: %s is %s", errDegraded, at, report.Sentence())
	}
	return nil
}

// probeTarget tries what a place does.
func (a *app) probeTarget(ctx context.Context, at place) (*target.Report, error) {
	if !at.onShare() {
		return target.Run(ctx, at.folder, target.Options{Pass: a.gate(nil, at.folder)})
	}
	st, err := a.shareOf(ctx, at.share)
	if err != nil {
		return nil, err
	}
	return target.RunShare(ctx, st, target.Options{})
}

// shareOf returns the connections of this run to a share, and makes them where there are none yet.
func (a *app) shareOf(ctx context.Context, t smb.Target) (*smb.Store, error) {
	for _, st := range a.shares {
		if st.Target() == t {
			return st, nil
		}
	}
	st, err := a.connect(ctx, t, smb.Open)
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("check %s: %w: name one that is there, or the share alone; init makes the folder of a repository "+
			"(%w)", t, target.ErrNotFolder, err)
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", t, err)
	}
	return st, nil
}

// measureTarget measures how fast a place takes files, and says it through say.
func (a *app) measureTarget(ctx context.Context, at place, say func(output.Record) error) (err error) {
	var speed *target.Speed
	if at.onShare() {
		var st *smb.Store
		if st, err = a.shareOf(ctx, at.share); err == nil {
			speed, err = target.MeasureShare(ctx, st)
		}
	} else {
		speed, err = target.MeasureFolder(ctx, at.folder, a.gate(nil, at.folder))
	}
	if err != nil {
		return err
	}
	return say(&output.Destination{Speed: speed})
}

// lookAtTarget does before a backup what is to be done about its target.
func (a *app) lookAtTarget(ctx context.Context, f *backupFlags, id string) error {
	if f.dryRun {
		return nil
	}
	a.watchTarget(ctx, id)
	if f.place.measure {
		at, err := a.place()
		if err != nil {
			return err
		}
		return a.measureTarget(ctx, at, a.print.Tell)
	}
	return nil
}

// watchTarget probes the folder of the repository id when it is new, or mounted from elsewhere than it was last time, and
// notes what is not as it should be. Nothing depends on success: what is wrong shows when packs are written.
func (a *app) watchTarget(ctx context.Context, id string) {
	at, err := a.place()
	cache := a.spec.Cache()
	if err != nil || at.onShare() || !cache.Enabled || cache.Dir == "" {
		return // no mount, or it would be probed each time
	}
	report, err := known.Probe(ctx, at.folder, filepath.Join(cache.Dir, id), a.gate(nil, at.folder),
		a.devices)
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
