package restore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// repositoryNames returns entries that each repository has.
func repositoryNames() []string { return []string{"config", "keys", "packs", "snapshots"} }

// isRepository reports whether a directory with these entries is a repository. No snapshot contains its own repository,
// so --delete would remove the backups.
func isRepository(names []string) bool {
	return !slices.ContainsFunc(repositoryNames(), func(name string) bool { return !slices.Contains(names, name) })
}

// idDigits is the length of the ID of a repository in the name of a key file.
const idDigits = 32

// isKeyFile reports whether a file is named like a key file of this machine: by the ID of its repository. Without it,
// no backup in that repository can be read.
func isKeyFile(name string) bool {
	id, found := strings.CutSuffix(name, ".key")
	return found && len(id) == idDigits && strings.Trim(id, "0123456789abcdef") == ""
}

// holdsRepository is isRepository for a directory whose entries lstat finds. One call is usually enough. A directory
// "config" belongs to something else.
func holdsRepository(lstat func(name string) (isDir bool, err error)) bool {
	return !slices.ContainsFunc(repositoryNames(), func(name string) bool {
		isDir, err := lstat(name)
		return err != nil || isDir && name == "config"
	})
}

// refuseRepository returns an error if the target is a repository or lies in one, by its path without symbolic links.
func (j *job) refuseRepository(ctx context.Context, pass *iopolicy.Pass) error {
	found := ""
	_, err := pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (int, error) {
		at, err := filepath.Abs(existingPart(j.to.Path))
		for last := ""; err == nil && found == "" && at != last; last, at = at, filepath.Dir(at) {
			if holdsRepository(func(name string) (bool, error) {
				info, err := os.Lstat(filepath.Join(at, name))
				return err == nil && info.IsDir(), err
			}) {
				found = at
			}
		}
		return 0, err
	})
	if err == nil && found != "" {
		err = fmt.Errorf("restore to %s: %s %w", j.to.Path, found, errTarget)
	}
	return err
}

// existingPart returns the longest part of a path that exists, without symbolic links. It removes no ".." before the
// links are followed.
func existingPart(path string) string {
	for path != "" {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		path, _ = filepath.Split(strings.TrimRight(path, "/"))
	}
	return "."
}

// enterExisting is enter for a directory that this run has not made.
func (w *walker) enterExisting(in *localfs.Dir, d *dir) error {
	if err := w.enter(in, d); err != nil {
		return err
	}
	d.state = occupied
	if d.guarded = d.parent.guarded; d.guarded {
		return nil
	}
	return w.withDir(d, func(h *localfs.Dir) error {
		var st localfs.Stat
		d.guarded = holdsRepository(func(name string) (bool, error) {
			err := h.Lstat(name, &st)
			return st.Type == tree.Dir, err
		})
		return nil
	})
}
