package restore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/internal/restore/removal"
	"github.com/tidemark-backup/tidemark/internal/restore/spelling"
	"github.com/tidemark-backup/tidemark/internal/restore/temp"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// replaces decides whether the overwrite rule lets n take the place of what st describes.
func (j *job) replaces(n *tree.Node, st *localfs.Stat) bool {
	switch j.to.Overwrite {
	case Never:
		return false
	case IfNewer:
		return st.Mtime.Sec < n.ModTime.Sec || st.Mtime.Sec == n.ModTime.Sec && st.Mtime.Nsec < n.ModTime.Nsec
	case IfChanged:
		return st.Type != n.Type || st.Mtime != n.ModTime || n.Type == tree.File && st.Size != n.Size
	}
	return true
}

// clash says that what is there under a name of d, open as in, is the place of another object of the snapshot.
func (j *job) clash(d *dir, in *localfs.Dir, name string) error {
	if d.names == nil {
		return nil
	}
	first, err := j.spellings.Clash(d, in, name, d.names)
	if err == nil && first != "" {
		err = fmt.Errorf("it would take the place of %q: %w", first, errClash)
	}
	return err
}

// names yields the names of what is to be restored into d from the tree with that root.
func (w *walker) names(ctx context.Context, d *dir, root format.ID, yield func(string)) error {
	err := tree.Walk(ctx, w.repo.LoadBlob, root, func(n *tree.Node) error {
		take, enter := true, false
		if w.sel.Take != nil {
			take, enter = w.sel.Take(d.at(n), n.Type)
		}
		if take || enter {
			yield(n.Name)
		}
		return nil
	})
	if context.Cause(ctx) == nil && damage.Partial(err) {
		return nil // told by the walk itself
	}
	return err
}

// clear makes room for an object of another type. A directory goes only if it is empty, or if everything that is not in
// the snapshot is to go.
func (j *job) clear(in *localfs.Dir, name string, st *localfs.Stat) error {
	if err := removal.Unprotect(in, name); err != nil {
		return err
	}
	if st.Type != tree.Dir {
		return in.Remove(name, false)
	}
	if j.to.Delete {
		_, err := removal.All(in, name)
		return err
	}
	if err := in.Remove(name, true); err != nil {
		return fmt.Errorf("%w: %w", errNotEmpty, err)
	}
	return nil
}

// others leaves out of extra what a name to be kept leads to all the same, since the directory has it by another spelling:
// in other case, composed otherwise, or without a dot at the end. Names that the listing did not have are true in keep.
func others(in *localfs.Dir, keep map[string]bool, extra []string) ([]string, error) {
	if len(extra) == 0 {
		return nil, nil
	}
	elsewhere := map[string]localfs.Stat{}
	var st localfs.Stat
	for name, unlisted := range keep {
		if !unlisted {
			continue
		}
		switch err := in.Lstat(name, &st); {
		case err == nil:
			elsewhere[name] = st
		case !errors.Is(err, localfs.ErrVanished):
			return nil, err
		}
	}
	if len(elsewhere) == 0 {
		return extra, nil
	}
	// What was made since the listing is in another one.
	if err := spelling.Listed(in, func(name []byte) { delete(elsewhere, string(name)) }); err != nil {
		return nil, err
	}
	for name, kept := range elsewhere {
		rest := slices.DeleteFunc(slices.Clone(extra), func(other string) bool {
			return spelling.Alike(name, other) || in.Lstat(other, &st) == nil && st.Ino == kept.Ino && st.Dev == kept.Dev
		})
		if len(rest) == len(extra) {
			return nil, fmt.Errorf("%q: %w", name, errSpelling)
		}
		extra = rest
	}
	return extra, nil
}

// sweep removes what is in d but not in the snapshot. That something is not in the snapshot must mean that it was not
// there: this is not so of a directory that could not be listed or of which only a part was taken, nor of a file system that
// the backup did not enter or that was not mounted then.
func (w *walker) sweep(d *dir, keep map[string]bool) error {
	if d.partial {
		return nil // told
	}
	if d.mounted && (!d.mount || len(keep) == 0) {
		w.ledger.Note(d.path, "delete", errNotEntered)
		return nil
	}
	var extra []string
	var growing map[string]bool // temporary names of files that are being written
	err := w.in(d, func(h *localfs.Dir) error {
		extra = extra[:0]
		err := h.Entries(make([]byte, 64<<10), func(name []byte, _ tree.Type, _ uint64) error {
			if _, ok := keep[string(name)]; ok {
				keep[string(name)] = false
				return nil
			}
			if temp.Is(string(name)) {
				if growing == nil {
					growing = temp.Names(keep)
				}
				if growing[string(name)] {
					return nil
				}
			}
			extra = append(extra, string(name))
			return nil
		})
		if err == nil {
			extra, err = others(h, keep, extra)
		}
		return err
	})
	if err != nil {
		w.tell(d.path, "list target directory", err)
		return nil
	}
	if len(extra) > 0 && !w.wholly(d) {
		w.ledger.Note(d.path, "delete", errOnTheWay)
		return nil
	}
	if removal.Repository(extra) {
		w.tell(d.path, "delete", removal.ErrRepository)
		return nil
	}
	for _, name := range extra {
		at := path.Join(d.path, name)
		if w.sel.Take != nil {
			if take, _ := w.sel.Take(at, 0); !take {
				continue
			}
		}
		n := uint64(1)
		if !w.to.DryRun {
			n = 0
			err := w.in(d, func(h *localfs.Dir) error {
				gone, err := removal.All(h, name)
				n += gone
				return err
			})
			if err != nil {
				w.tell(at, "delete", err)
			}
		}
		w.ledger.Objects.Deleted.Add(n)
		w.mu.Lock()
		w.result.Deleted += n
		w.mu.Unlock()
	}
	return nil
}
