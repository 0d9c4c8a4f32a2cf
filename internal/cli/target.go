package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/target"
)

func (a *app) targetCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "target",
		Short: "Test whether a disk or share is suitable for a repository",
	}, "check", a.targetCheckCommand())
}

func (a *app) targetCheckCommand() *cobra.Command {
	var speed bool
	c := a.command(&cobra.Command{
		Use:   "check [flags] [PATH|smb://...|s3://...|sftp://...]",
		Short: "Test a folder, a share or a bucket, and measure its write speed",
		Long: `Tests in a folder what a repository relies on: whether a rename replaces a file atomically, whether flushing
works, how names are treated, and whose clock dates the files. The result is safe, degraded or unfit, with the reasons
and what to do about them. The folder may be on a share, mounted or named as smb://user@host/share/path. Without PATH,
the location of the repository is tested.

Then it writes one file of 50 MB, and 500 files of 4 KB at the same time, flushes each, and prints the speed. All files
are in a temporary folder, which is removed.

Exit code 0: safe. 3: degraded, but a repository can be kept there. 1: not suitable, or the test failed.`,
		Example: `  tidemark target check /mnt/nas/backup
  tidemark target check smb://me@nas/backup
  tidemark target check --speed=false /Volumes/X`,
		Args:        arguments(0, 1),
		Annotations: map[string]string{takesAddress: "PATH"},
	}, func(ctx context.Context, args []string) error {
		text := a.spec.Repository().Location
		if len(args) > 0 {
			text = args[0]
		}
		return a.checkTarget(ctx, text, speed)
	}, options.GroupPolicy)
	c.Flags().BoolVar(&speed, "speed", true, "measure the write speed")
	return c
}

func (a *app) checkTarget(ctx context.Context, text string, speed bool) error {
	if text == "" {
		return usagef("name a folder, a share or a bucket: tidemark target check " +
			"PATH|smb://user@host/share/path|s3://host/bucket/prefix|sftp://user@host/path")
	}
	at, err := place.Parse(text)
	if err != nil {
		return err
	}
	a.applyPolicy(options.Attended)
	report, err := a.probeTarget(ctx, at)
	if err != nil {
		return err
	}
	if err := a.print.Print(output.Target(report)); err != nil {
		return err
	}
	if report.Verdict() == target.Unfit {
		return fmt.Errorf("%w: %s is %s", errUnfit, at, report.Sentence())
	}
	if speed {
		if err := a.measureTarget(ctx, at, a.print.Print); err != nil {
			return err
		}
	}
	if report.Verdict() == target.Degraded {
		return fmt.Errorf("%w: %s is %s", errDegraded, at, report.Sentence())
	}
	return nil
}

// probeTarget tests a location.
func (a *app) probeTarget(ctx context.Context, at location.Location) (*target.Report, error) {
	if !at.OnServer() {
		return target.Run(ctx, at.Folder, target.Options{Pass: a.governor.Gate(nil, at.Folder), Known: a.place.Known})
	}
	st, err := a.remoteAt(ctx, at)
	if err != nil {
		return nil, err
	}
	return target.RunServer(ctx, st, target.Options{})
}

// remoteAt returns the connection of this run to a place on a server, and opens it if there is none.
func (a *app) remoteAt(ctx context.Context, at location.Location) (store.Remote, error) {
	st, err := a.place.Dial(ctx, at)
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("check %s: %w: name one that is there, or the share alone; init makes the folder of a "+
			"repository (%w)", at, target.ErrNotFolder, err)
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", at, err)
	}
	return st, nil
}

// measureTarget measures the write speed of a location, and prints it with say.
func (a *app) measureTarget(ctx context.Context, at location.Location, say func(output.Record) error) (err error) {
	var speed *target.Speed
	if at.OnServer() {
		var st store.Remote
		if st, err = a.remoteAt(ctx, at); err == nil {
			speed, err = target.MeasureServer(ctx, st)
		}
	} else {
		speed, err = target.MeasureFolder(ctx, at.Folder, a.governor.Gate(nil, at.Folder))
	}
	if err != nil {
		return err
	}
	return say(output.Destination(speed))
}

// prepareTarget probes and measures the target before a backup, and notes which attributes of the sources are hidden.
func (a *app) prepareTarget(ctx context.Context, f *backupFlags, id string) error {
	if sysinfo.HidesTrusted() {
		a.print.Note("attributes trusted.* are left out, since this process lacks CAP_SYS_ADMIN")
	}
	if f.job.Session.DryRun {
		return nil
	}
	a.probeNewTarget(ctx, id)
	if f.measure {
		at, err := a.place.Location()
		if err != nil {
			return err
		}
		return a.measureTarget(ctx, at, a.print.Report)
	}
	return nil
}

// probeNewTarget probes the folder of the repository id if it is new or another file system is mounted, and notes
// problems. It never fails: a real problem shows when packs are written.
func (a *app) probeNewTarget(ctx context.Context, id string) {
	at, err := a.place.Location()
	if err != nil || at.OnServer() || !a.caches() {
		return // not mounted, or nothing remembers the last probe
	}
	report, err := target.ProbeOnce(ctx, at.Folder, filepath.Join(a.spec.Cache().Dir, id), a.governor.Gate(nil, at.Folder),
		a.devices)
	if err != nil && ctx.Err() == nil {
		a.print.Note("the target could not be tested: " + err.Error())
	}
	if report == nil {
		return
	}
	for _, p := range report.Because() {
		a.print.Note(fmt.Sprintf("the target is %s: %s: %s (%s)", report.Verdict(), p.Name, p.Evidence, p.Remedy))
	}
}
