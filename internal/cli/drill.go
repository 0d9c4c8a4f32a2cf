package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// parseSample parses the number or share of files to restore: 20, or 0.1%.
func parseSample(text string) (opt drill.Options, err error) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		opt.Percent, err = strconv.ParseFloat(share, 64)
		if err != nil || !(opt.Percent > 0 && opt.Percent <= 100) {
			err = usagef("--restore-sample %q: write a share of the files above 0%% and up to 100%%", text)
		}
		return opt, err
	}
	if opt.Files, err = strconv.ParseUint(text, 10, 64); err != nil || opt.Files == 0 || opt.Files > drill.MaxFiles {
		err = usagef("--restore-sample %q: write a number of files from 1 to %d, or a share of them as 0.1%%", text,
			drill.MaxFiles)
	}
	return opt, err
}

// drill restores files of the newest snapshot of each machine and set of paths.
func (a *app) drill(ctx context.Context, f *checkFlags) (err error) {
	opt, err := parseSample(f.sample)
	if err != nil {
		return err
	}
	opt.Seed, opt.Folder, opt.Host, opt.Gate = f.seed, os.TempDir(), hostName(), a.governor.Gate
	if opt.Seed == 0 {
		opt.Seed = uint64(time.Now().UnixNano())
	}
	opt.Workers = a.spec.Parallel(sysinfo.CPUCount(), options.Media{}).Workers.Readers
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	list, _, err := a.readable(ctx, r, repo.Filter{})
	if err != nil {
		return err
	}
	by, err := parseGroupBy("host,paths")
	if err != nil {
		return err
	}
	made := proofs.Drill{}
	for _, g := range newestOfEach(groupSnapshots(whole(list), by), 1) {
		for _, s := range g.List {
			opt.Snapshots = append(opt.Snapshots, s)
			made.Snapshot = s.ID
		}
	}
	if len(opt.Snapshots) == 0 {
		a.print.Note("there is no whole snapshot: nothing was restored as a sample, and nothing is proven")
		return nil
	}
	l := report.NewJob(report.Restore, time.Now)
	a.place.Intake.Attach(l)
	stop := a.print.Watch(ctx, l)
	res, err := drill.Run(ctx, r, opt, l)
	stop()
	a.recordDamage(ctx, r, &restore.Result{Damaged: res.Damaged}, err)
	if err != nil {
		return fmt.Errorf("make a restore drill: %w", err)
	}
	made.At, made.Files, made.Live, made.Failed = time.Now(), res.Files, res.Live, res.Failed
	if folder := a.cacheFolder(r); folder != "" {
		if err := proofs.WriteDrill(folder, made); err != nil {
			a.print.Note(err.Error())
		}
	}
	if err := a.print.Report(&output.Drilled{Result: res, Snapshots: len(opt.Snapshots), Seed: opt.Seed}); err != nil {
		return err
	}
	if res.Failed > 0 {
		return fmt.Errorf("the restore drill failed: %s of %d not restored as they should be",
			human.Plural(res.Failed, "file"), res.Files)
	}
	return nil
}
