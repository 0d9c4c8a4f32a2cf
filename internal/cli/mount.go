package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/mount"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/scope"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// mountFrames is how many bytes of opened frames a mount keeps in memory. With 96 MiB and a large directory listed, a
// mount of the usual --memory was at the limit of its heap: reading 1 GiB took 336 to 516 collections, now 122 to 128.
const mountFrames = 64 << 20

func (a *app) mountCommand() *cobra.Command {
	var filter repo.Filter
	var others, plain bool
	c := a.command(&cobra.Command{
		Use:   "mount [flags] DIR [SNAPSHOT[:/PATH]]",
		Short: "Show snapshots as files in a directory",
		Long: `Mounts the repository, or one snapshot, read-only at an empty directory, until Ctrl-C or 'fusermount3 -u DIR'.

    latest             a link to the newest snapshot
    snapshots/TIME     each snapshot
    hosts/NAME/TIME    links to those of a host
    tags/NAME/TIME     links to those with a tag

New snapshots appear within half a minute. A mount delays no backup and keeps no snapshot: when a prune removes the data
of a snapshot that was forgotten, reading it fails. Only the user who mounts can enter, unless --allow-other is given.
It needs FUSE: on Debian the package fuse3, on macOS macFUSE (not tested there yet).`,
		Example: `  tidemark mount ~/snapshots
  tidemark mount /mnt latest:/home/ann`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && args[0] == "all" { // kopia's
				return errors.New("all snapshots are mounted where none is named")
			}
			return arguments(1, 2)(c, args)
		},
		ValidArgsFunction: a.mountArgs,
	}, func(ctx context.Context, args []string) error {
		dir, err := a.mountPoint(ctx, args[0])
		if err != nil {
			return err
		}
		a.place.Frames = mountFrames
		return a.withRepository(ctx, func(r *repo.Repository) error {
			root, err := a.rootOf(ctx, r, args[1:], filter)
			if err != nil {
				return err
			}
			return mount.Serve(ctx, dir, root, r.LoadBlob, mount.Options{
				AllowOther: others, Plain: plain, Source: r.Store().Location(), Notify: a.print.Note,
			}, func() {
				a.print.Show(fmt.Sprintf("Mounted at %s. Press Ctrl-C to unmount.\n", human.Printable(dir)))
			})
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().BoolVar(&others, "allow-other", false, "let other users enter, as the modes of the files allow")
	c.Flags().BoolVar(&plain, "no-attributes", false,
		"leave out extended attributes and ACLs: ls -l takes less time")
	return c
}

// mountArgs completes a directory, then a snapshot.
func (a *app) mountArgs(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return a.snapshotArgs(2)(c, args, word)
}

// rootOf returns what is mounted: all snapshots that pass the filter, or the directory that an argument names.
func (a *app) rootOf(ctx context.Context, r *repo.Repository, args []string, filter repo.Filter) (view.Entry, error) {
	if len(args) == 0 {
		root := view.NewRepository(r.LoadBlob, a.viewed(r, filter), time.Now).Root()
		// An error of the first listing ends the command, not the first look.
		return root, root.Folder.List(ctx, 0, func(view.Entry) bool { return false })
	}
	found, sub, err := find(ctx, r, args[0], filter)
	if err != nil {
		return view.Entry{}, err
	}
	n, err := browse.Resolve(ctx, r.LoadBlob, found.Snapshot.Tree, sub)
	if err != nil {
		return view.Entry{}, err
	}
	if n.Subtree.IsZero() {
		return view.Entry{}, usagef("%s is no directory: dump it, or mount the directory it is in", sub)
	}
	return view.NewTrees(r.LoadBlob).Root(found.ID, n), nil
}

// viewed returns what lists the snapshots that can be read, oldest first, and notes each one that cannot once.
func (a *app) viewed(r *repo.Repository, filter repo.Filter) func(context.Context) ([]repo.Listed, error) {
	noted := map[format.ID]bool{}
	var mu sync.Mutex
	return func(ctx context.Context) (list []repo.Listed, err error) {
		all, err := r.Snapshots(ctx)
		mu.Lock()
		defer mu.Unlock()
		for _, l := range all {
			switch {
			case l.Err != nil && !noted[l.ID]:
				noted[l.ID] = true
				a.print.Note(fmt.Sprintf("snapshot %s cannot be read, and is left out: %v", l.ID.Short(), l.Err))
			case l.Err == nil && filter.Match(l.Snapshot):
				list = append(list, l)
			}
		}
		return list, err
	}
}

// mountPoint checks a mount point: a directory that is empty and neither above nor below anything in use.
func (a *app) mountPoint(ctx context.Context, path string) (string, error) {
	dir := scope.Resolve(path)
	held, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("%s: a program that was killed left its mount there: remove it with 'fusermount3 -u %s'",
			human.Printable(dir), human.Printable(dir))
	case errors.Is(err, os.ErrNotExist):
		return "", usagef("%s does not exist: make it, or name another directory", human.Printable(path))
	case err != nil:
		return "", fmt.Errorf("mount: %w", err)
	case len(held) > 0:
		return "", usagef("%s is not empty: name an empty directory", human.Printable(path))
	}
	at, err := a.place.Location()
	if err != nil {
		return "", err
	}
	used := map[string]string{at.Folder: "the repository", a.spec.Cache().Dir: "the cache"}
	jobs, err := a.jobs(0)
	if err == nil {
		for _, j := range jobs {
			status, err := j.Status(ctx)
			if err != nil {
				continue // it has ended
			}
			for _, source := range status.Sources {
				used[source] = "a source of a running backup"
			}
		}
	}
	for path, what := range used {
		if path == "" {
			continue
		}
		if path = scope.Resolve(path); contains(dir, path) || contains(path, dir) {
			return "", usagef("%s is above or below %s, which is %s: name a directory elsewhere", human.Printable(dir),
				human.Printable(path), what)
		}
	}
	return dir, nil
}

// contains reports whether a directory is another or above it, by device and inode of each, so under any name.
func contains(dir, other string) bool {
	at, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(other); err == nil && os.SameFile(at, info) {
			return true
		}
		if other == filepath.Dir(other) {
			return false
		}
		other = filepath.Dir(other)
	}
}
