package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/check"
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

type checkFlags struct {
	readData, withoutKey bool
	subset               string
	rolling              uint64
	sample               string
	seed                 uint64
	parallel             int
}

func (a *app) checkCommand() *cobra.Command {
	f := &checkFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "check [flags]",
		Short: "Check the repository for damage",
		Long: `Checks that every snapshot can be read and that all data it needs exists. --read-data also reads all data back
and verifies it.

--read-data-subset reads part of it: a random share (5%), a fixed part (3/10: ten runs with 1/10 to 10/10 read
everything once), or an amount (500M). --read-data-rolling 7 reads the seventh that was read longest ago, so that seven
runs read everything; the cache folder remembers which packs were read when, and 'tidemark snapshots' shows it.

--restore-sample 20 (or 0.1%) restores that many files, chosen at random from the newest snapshots, into a temporary
folder in TMPDIR. Each is compared with its hashes, and byte by byte with the file on this machine if that is unchanged
since the backup. The folder is removed afterwards. The sample uses the I/O policy throttle unless --policy names
another.

--without-key needs no key, so the machine that stores the repository can run it: it compares every stored file with the
hash in its name. It cannot detect a missing file.

A key that this machine knew and that is gone is reported each time, which is no failure.

The check changes one thing in the repository: a mark file names the damaged packs, and the next backup from any machine
stores what it needs of them again. 'tidemark repair' handles the rest.`,
		Example: `  tidemark check --read-data-subset 1/7
  tidemark check --read-data-rolling 30 --restore-sample 50
  tidemark check --without-key --repo /srv/backup`,
	}, func(ctx context.Context, _ []string) error {
		if f.subset == "" && c.Flags().Changed("read-data-subset") {
			return usagef("--read-data-subset is empty: write a share (5%%), a fixed part (3/10) or an amount (500M)")
		}
		if f.rolling == 0 && c.Flags().Changed("read-data-rolling") {
			return usagef("--read-data-rolling: write the number of runs that read everything, 1 or more")
		}
		if err := checkParallel(f.parallel); err != nil {
			return err
		}
		sampled := c.Flags().Changed("restore-sample")
		sample, err := parseSample(f.sample)
		switch {
		case sampled && err != nil:
			return err
		case sampled && f.withoutKey:
			return usagef("--without-key cannot restore files: leave out --restore-sample")
		case sampled:
			a.applyPolicy(options.LaterBackup)
		}
		if err := a.check(ctx, f); err != nil || !sampled {
			return err
		}
		sample.Seed = f.seed
		return a.drill(ctx, sample)
	}, options.GroupPolicy)
	c.Flags().BoolVar(&f.readData, "read-data", false, "read all data back")
	c.Flags().StringVar(&f.subset, "read-data-subset", "", "read part of the data back: 5%, 3/10 or 500M")
	c.Flags().Uint64Var(&f.rolling, "read-data-rolling", 0,
		"read back the part that was read longest ago; n runs read everything")
	c.Flags().StringVar(&f.sample, "restore-sample", "",
		"restore this many files and compare them; 20, or 0.1%, into a temporary folder")
	c.Flags().Uint64Var(&f.seed, "restore-sample-seed", 0, "choose the files by this seed; default: at random")
	c.Flags().BoolVar(&f.withoutKey, "without-key", false,
		"compare stored files with the hashes in their names; needs no key")
	c.Flags().IntVar(&f.parallel, "parallel", 0, "stored files checked at the same time; default 4")
	a.pastFlag(c)
	return c
}

func (a *app) check(ctx context.Context, f *checkFlags) error {
	opt := check.Options{ReadData: f.readData, Parallel: f.parallel, Record: hostName()}
	if at, err := a.place.Location(); err == nil {
		opt.Lagging = a.settle(at) != 0
	}
	if f.subset != "" {
		var err error
		if opt.Subset, err = check.ParseSubset(f.subset); err != nil {
			return &usageError{fmt.Errorf("--read-data-subset: %w", err)}
		}
		opt.ReadData = true
	}
	switch given := several(f.readData, f.subset != "", f.rolling > 0); {
	case given > 1:
		return usagef("--read-data, --read-data-subset and --read-data-rolling exclude each other: choose one")
	case f.withoutKey && given > 0:
		return usagef("--without-key reads every stored file already: leave out --read-data, --read-data-subset and " +
			"--read-data-rolling")
	case f.rolling > 0 && !a.caches():
		return usagef("--read-data-rolling remembers in the cache folder what was read: leave out --no-cache and --as-of, " +
			"or name a folder with --cache-dir")
	case f.rolling > 0:
		opt.ReadData, opt.Subset.Rolling = true, f.rolling
	}
	l, end := a.begin(ctx, report.Check)
	defer end()
	result, err := a.runCheck(ctx, f, opt, l)
	if result != nil {
		halfway := err != nil
		for i := range result.Problems {
			err = errors.Join(err, a.print.Print(output.Problem(&result.Problems[i])))
		}
		for _, note := range result.Notes {
			a.print.Note(note)
		}
		err = errors.Join(err, a.print.Report(&output.Check{Ledger: l, Result: result, Halfway: halfway}))
	}
	if err == nil && !result.OK() {
		err = fmt.Errorf("the repository is damaged: %s found; %s",
			human.Plural(uint64(len(result.Problems))+result.More, "problem"), healing(result))
	}
	return err
}

// healing says whether the next backup heals the problems.
func healing(r *check.Result) string {
	const heals = "the next backup stores again what the sources still have"
	switch r.Healable() {
	case len(r.Problems):
		return heals
	case 0:
		return "no backup stores that again: do what is advised for each"
	}
	return heals + "; for the rest do what is advised for each"
}

func (a *app) runCheck(ctx context.Context, f *checkFlags, opt check.Options, l *report.Ledger) (*check.Result, error) {
	if f.withoutKey {
		st, err := a.store(ctx)
		if err != nil {
			return nil, err
		}
		defer a.print.Watch(ctx, l)()
		return check.WithoutKey(ctx, st, f.parallel, l)
	}
	a.place.RemindKeys = true
	r, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer a.print.Watch(ctx, l)()
	opt.Scratch, opt.Proofs = a.cacheFolder(r), a.cacheFolder(r)
	result, err := check.Run(ctx, r, opt, l)
	if err == nil {
		l.Phase(report.Done)
	}
	return result, errors.Join(err, r.Close())
}

// rememberDamage records on this machine that a command other than check found damage, so that status and the service
// report it until a check finds none.
func (a *app) rememberDamage(r *repo.Repository, problems uint64) {
	folder := a.cacheFolder(r)
	if folder == "" {
		return
	}
	known, err := proofs.ReadSummary(folder)
	if err == nil && known.Damage.Problems >= problems {
		return
	}
	if err := proofs.WriteDamage(folder, proofs.Damage{At: time.Now(), Problems: problems}); err != nil {
		a.print.Note(err.Error())
	}
}

// caches reports whether something may be kept on this machine from run to run.
func (a *app) caches() bool {
	c := a.spec.Cache()
	return c.Enabled && c.Dir != ""
}

// cacheFolder returns the folder of what is kept of a repository from run to run; "": nothing may be.
func (a *app) cacheFolder(r *repo.Repository) string {
	if !a.caches() {
		return ""
	}
	return r.CacheFolder()
}

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
func (a *app) drill(ctx context.Context, opt drill.Options) (err error) {
	opt.Folder, opt.Host, opt.Gate = os.TempDir(), hostName(), a.governor.Gate
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
	if err := a.print.Report(output.Drilled(res)); err != nil {
		return err
	}
	if res.Failed > 0 {
		return fmt.Errorf("the restore drill failed: %s of %d not restored as they should be",
			human.Plural(res.Failed, "file"), res.Files)
	}
	return nil
}
