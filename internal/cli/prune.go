package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// listingDelay is how old the cached listing of a mounted share can be: a minute at most by default for NFS, less for
// SMB.
const listingDelay = time.Minute

// settle returns how old listings of a location can be. The delay of most FUSE file systems is unknown; rclone caches a
// folder for five minutes by default.
func (a *app) settle(at location.Location) time.Duration {
	if at.OnServer() || !a.place.Remote() {
		return 0
	}
	info, err := a.devices.Of(at.Folder)
	if err != nil {
		return prune.Unbounded
	}
	switch info.FS {
	case "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afpfs", "ceph", "lustre", "beegfs", "gpfs":
		return listingDelay
	}
	return prune.Unbounded
}

// defaultUnused is how much unused data may stay.
const defaultUnused = "5%"

type pruneFlags struct {
	maxUnused string
	dryRun    bool
	exclusive bool
	parallel  int
}

// limits registers the flags that forget --prune has too.
func (f *pruneFlags) limits(flags *pflag.FlagSet) {
	flags.StringVar(&f.maxUnused, "max-unused", defaultUnused,
		"how much unused data may stay; 5%, 200M (MB if no unit is given) or unlimited")
	flags.BoolVar(&f.exclusive, "exclusive", false,
		"no other process uses the repository, or has in the last hour; does not wait on "+
			"mounted shares, and prunes although the file system may list folders with minutes of delay (rclone, sshfs)")
}

func (f *pruneFlags) options(a *app) (prune.Options, error) {
	limit, err := prune.ParseLimit(f.maxUnused)
	if err != nil {
		return prune.Options{}, usagef("--max-unused: %w", err)
	}
	if err := checkParallel(f.parallel); err != nil {
		return prune.Options{}, err
	}
	opt := prune.Options{MaxUnused: limit, Parallel: f.parallel}
	opt.DryRun, opt.Note, opt.Host = f.dryRun, a.print.Note, hostName()
	if f.exclusive {
		opt.Settle = prune.Exclusive
	}
	return opt, nil
}

func (a *app) pruneCommand() *cobra.Command {
	f := &pruneFlags{}
	c := a.command(&cobra.Command{
		Use:   "prune [flags]",
		Short: "Delete data that no snapshot needs",
		Long: `Deletes the data that no snapshot needs after 'tidemark forget' removed some. A pack of which nothing is needed
is deleted. Packs that are partly needed are repacked, those that free most for the work first, until no more than
--max-unused of the repository is unused.

Backups may run at the same time, on this machine and on others. Unused data is first only marked. The same run deletes
it if no other process is writing to the repository; otherwise a later run does, once every backup that started before
the mark has ended. A backup that died counts as ended after 45 minutes.

If any data that a snapshot needs is missing or damaged, nothing is deleted.

Where the server locks files (--s3-lock), prune extends the locks of all that stay, when half of their term is over.
What it deletes stays as an older version until its lock ends.`,
		Example: `  tidemark prune --dry-run
  tidemark prune --max-unused 10%`,
	}, func(ctx context.Context, _ []string) error {
		opt, err := f.options(a)
		if err != nil {
			return err
		}
		return a.withRepository(ctx, func(r *repo.Repository) error { return a.pruneOpen(ctx, r, opt, f.maxUnused) })
	}, options.GroupPolicy, options.GroupCompression)
	f.limits(c.Flags())
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "change nothing, only report what would be done")
	c.Flags().IntVar(&f.parallel, "parallel", 0, "folders and packs read at the same time; default 4")
	return c
}

// pruneOpen prunes an open repository. allows is what --max-unused allows.
func (a *app) pruneOpen(ctx context.Context, r *repo.Repository, opt prune.Options, allows string) error {
	if at, err := a.place.Location(); err == nil && opt.Settle != prune.Exclusive {
		opt.Settle = a.settle(at)
	}
	l, end := a.begin(ctx, report.Prune)
	defer end()
	opt.Scratch = a.cacheFolder(r)
	a.writes(&opt.SessionOptions, l)
	stop := a.print.Watch(ctx, l)
	res, err := prune.Run(ctx, r, opt)
	if ctx.Err() == nil {
		var failed error
		res.Extended, failed = a.extendLocks(ctx, r, opt.DryRun)
		err = errors.Join(err, failed)
	}
	stop()
	if err == nil || res.Before.Packs > 0 && ctx.Err() == nil {
		err = errors.Join(err, a.print.Print(&output.Pruned{Ledger: l, Result: res, DryRun: opt.DryRun,
			Allows: allows}))
	}
	return err
}

// locksFile remembers until when all files of a repository are locked at least. It is in the cache folder of the
// machine that extends the locks: what is in the bucket can be forged with the keys of any machine.
const locksFile = "locked-until"

// extendLocks extends the locks of what stays, if that is due.
func (a *app) extendLocks(ctx context.Context, r *repo.Repository, dry bool) (n uint64, err error) {
	name, held := "", time.Time{}
	if folder := a.cacheFolder(r); folder != "" {
		name = filepath.Join(folder, locksFile)
		if text, failed := os.ReadFile(name); failed == nil {
			held, _ = time.Parse(time.RFC3339, strings.TrimSpace(string(text))) // zero if it is torn: then it is due
			if late := time.Since(held); !held.IsZero() && late > 0 {
				a.warnAlways("warning: locks that prune extended ended " + human.Span(late) + " ago, so older files could " +
					"be removed since: prune at least twice in the term of a lock")
			}
		}
	}
	n, until, err := prune.Extend(ctx, r, held, dry)
	if err == nil && name != "" && !until.Equal(held) {
		err = os.WriteFile(name, []byte(until.UTC().Format(time.RFC3339)+"\n"), 0o600)
	}
	return n, err
}
