package restore

import (
	"fmt"
	"path"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/removal"
	"github.com/tidemark-backup/tidemark/internal/restore/temp"
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
	err := w.in(d, func(h *localfs.Dir) error {
		return h.Entries(make([]byte, 64<<10), func(name []byte, _ tree.Type, _ uint64) error {
			if keep[string(name)] {
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
	})
	if err != nil {
		w.tell(d.path, "list target directory", err)
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
