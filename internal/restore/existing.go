package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/store"
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

// clear makes room for an object of another type. A directory goes only if it is empty, or if everything that is not in
// the snapshot is to go.
func (j *job) clear(in *localfs.Dir, name string, st *localfs.Stat) error {
	if err := unprotect(in, name); err != nil {
		return err
	}
	if st.Type != tree.Dir {
		return in.Remove(name, false)
	}
	if j.to.Delete {
		_, err := j.removeAll(in, name)
		return err
	}
	if err := in.Remove(name, true); err != nil {
		return fmt.Errorf("%w: %w", errNotEmpty, err)
	}
	return nil
}

// unprotect takes off what keeps an object from being replaced. Whoever may not look whether there is something to take
// off may still be allowed to replace it: if not, that will say so.
func unprotect(in *localfs.Dir, name string) error {
	err := in.Unprotect(name)
	if localfs.Unsupported(err) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// mounted reports whether a file system is mounted on an entry of in, of which st tells.
func mounted(in *localfs.Dir, st *localfs.Stat) bool {
	if st.Type != tree.Dir || st.Attr&localfs.AttrMountRoot != 0 {
		return st.Type == tree.Dir
	}
	own, err := in.Fstat()
	return err != nil || own.Dev != st.Dev
}

// sweep removes what is in d but not in the snapshot. That something is not in the snapshot must mean that it was not
// there: this is not so of a directory that could not be listed, nor of a file system that the backup did not enter or
// that was not mounted then.
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
	h, err := w.handles.get(d)
	if err == nil {
		defer h.Release()
		err = h.Entries(make([]byte, 64<<10), func(name []byte, _ tree.Type, _ uint64) error {
			if keep[string(name)] {
				return nil
			}
			if isTempName(string(name)) {
				if growing == nil {
					growing = tempNames(keep)
				}
				if growing[string(name)] {
					return nil
				}
			}
			extra = append(extra, string(name))
			return nil
		})
	}
	if err != nil {
		w.tell(d.path, "list target directory", err)
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
			if n, err = w.removeAll(h, name); err != nil {
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

// removeAll removes an entry and everything below it, without following links, and returns how many objects went.
func (j *job) removeAll(in *localfs.Dir, name string) (removed uint64, err error) {
	var st localfs.Stat
	if err := in.Lstat(name, &st); err != nil {
		if errors.Is(err, localfs.ErrVanished) {
			return 0, nil
		}
		return 0, err
	}
	if mounted(in, &st) {
		return 0, errMounted
	}
	if err := unprotect(in, name); err != nil {
		return 0, err
	}
	if st.Type == tree.Dir {
		if removed, err = j.removeContents(in, name); err != nil {
			return removed, err
		}
	}
	if err := in.Remove(name, st.Type == tree.Dir); err != nil {
		return removed, err
	}
	return removed + 1, nil
}

func (j *job) removeContents(in *localfs.Dir, name string) (removed uint64, err error) {
	sub, err := in.Open(name)
	if err != nil {
		return 0, err
	}
	defer sub.Release()
	var names []string
	if err := sub.Entries(make([]byte, 16<<10), func(name []byte, _ tree.Type, _ uint64) error {
		names = append(names, string(name))
		return nil
	}); err != nil {
		return 0, err
	}
	for _, entry := range names {
		n, err := j.removeAll(sub, entry)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func isMissing(err error) bool { return errors.Is(err, store.ErrNotExist) }
