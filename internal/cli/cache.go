package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
)

type cacheFlags struct {
	cleanup, gone, dryRun bool
	maxAge                uint
}

func (a *app) cacheCommand() *cobra.Command {
	f := &cacheFlags{}
	c := a.command(&cobra.Command{
		Use:   "cache [flags]",
		Short: "List the local caches, and remove old ones",
		Long: `Lists the caches of all repositories on this machine, with the place where each repository was opened last. A
cache can be removed at any time: the next run makes a new one, which takes time.

--cleanup removes those that were not used for --max-age days. --gone also removes those whose repository was in a local
folder that is not there now; it may be on a disk that is not connected. A cache in use is never removed.`,
		Example: `  tidemark cache
  tidemark cache --cleanup --max-age 90`,
	}, func(context.Context, []string) error { return a.cache(f) })
	c.Flags().BoolVar(&f.cleanup, "cleanup", false, "remove old caches")
	c.Flags().UintVar(&f.maxAge, "max-age", 30, "days without use after which a cache is old")
	c.Flags().BoolVar(&f.gone, "gone", false, "with --cleanup: also remove the caches of repositories that are not there")
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false,
		"with --cleanup: remove nothing, only report what would be removed")
	return c
}

func (a *app) cache(f *cacheFlags) error {
	if !f.cleanup && (f.gone || f.dryRun) {
		return usagef("--gone and --dry-run belong to --cleanup: give that, too")
	}
	dir := a.spec.Cache().Dir
	if dir == "" {
		return usagef("name the folder of the caches with --cache-dir: this user has no home directory")
	}
	list, err := caches.List(dir)
	if err != nil {
		return err
	}
	if f.cleanup && !f.dryRun {
		caches.Sweep(dir)
	}
	var shown []output.Cache
	var failed error
	for _, c := range list {
		one := output.Cache{Cache: c, Gone: c.Gone(), Old: time.Since(c.Used) >= time.Duration(f.maxAge)*24*time.Hour}
		if f.cleanup && !c.InUse && (one.Old || f.gone && one.Gone) {
			err := error(nil)
			if !f.dryRun {
				err = caches.Remove(c)
			}
			switch {
			case errors.Is(err, caches.ErrInUse): // since it was listed
				one.InUse = true
			case err != nil:
				failed = errors.Join(failed, err)
			default:
				one.Removed = true
			}
		}
		shown = append(shown, one)
	}
	if failed != nil {
		failed = fmt.Errorf("clean up: %w", failed)
	}
	return errors.Join(a.print.Print(output.Caches(dir, shown, f.cleanup, f.dryRun)), failed)
}
