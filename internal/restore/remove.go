package restore

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// unprotect removes the flags that protect an object from being replaced.
func unprotect(in *localfs.Dir, name string) error { return ignoreRefusal(in.Unprotect(name)) }

// ignoreRefusal drops the errors of unprotect that do not prevent the replacement, or that the replacement reports
// itself.
func ignoreRefusal(err error) error {
	if localfs.Unsupported(err) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// isMountPoint reports whether the entry of in with status st is a mount point.
func isMountPoint(in *localfs.Dir, st *localfs.Stat) bool {
	if st.Type != tree.Dir || st.Attr&localfs.AttrMountRoot != 0 {
		return st.Type == tree.Dir
	}
	own, err := in.Fstat()
	return err != nil || own.Dev != st.Dev
}

// removeTree removes an entry and everything below it, and returns the number of removed objects. It follows no link,
// and keeps mounted file systems, repositories and key files. With dry it only counts.
func removeTree(in *localfs.Dir, name string, dry bool) (removed uint64, err error) {
	var st localfs.Stat
	switch err := in.Lstat(name, &st); {
	case errors.Is(err, localfs.ErrVanished):
		return 0, nil
	case err != nil:
		return 0, err
	case isMountPoint(in, &st):
		return 0, errMounted
	case st.Type == tree.File && isKeyFile(name):
		return 0, errKeyFile
	}
	if !dry {
		err = unprotect(in, name)
	}
	if err == nil && st.Type == tree.Dir {
		removed, err = removeContents(in, name, dry)
	}
	if err == nil && !dry {
		err = in.Remove(name, st.Type == tree.Dir)
	}
	if err != nil {
		return removed, err
	}
	return removed + 1, nil
}

// removeContents empties the directory name. If its permissions deny that, they are widened; with dry, it is taken for
// empty.
func removeContents(in *localfs.Dir, name string, dry bool) (removed uint64, err error) {
	removed, err = removeEntries(in, name, dry)
	if isDenied(err) && dry {
		return removed, nil
	}
	if !isDenied(err) {
		return removed, err
	}
	if _, ok := widenMode(in, name); !ok {
		return removed, err
	}
	more, err := removeEntries(in, name, dry)
	return removed + more, err
}

func removeEntries(in *localfs.Dir, name string, dry bool) (removed uint64, err error) {
	sub, err := in.Open(name)
	if err != nil {
		return 0, err
	}
	defer sub.Release()
	var names []string
	if err := eachName(sub, func(name []byte) { names = append(names, string(name)) }); err != nil {
		return 0, err
	}
	if isRepository(names) {
		return 0, errRepository
	}
	for _, entry := range names {
		n, err := removeTree(sub, entry, dry)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// holdsEntries reports whether the directory name of in is known to hold something.
func holdsEntries(in *localfs.Dir, name string) bool {
	sub, err := in.Open(name)
	if err != nil {
		return false
	}
	defer sub.Release()
	return !isEmpty(sub)
}

// removeExtra removes entries of d that the snapshot does not have; keep has the names of the snapshot. It requires
// that the snapshot knows all entries: the directory was listed completely, no part of it was excluded, and no other
// file system was mounted there or is now.
func (w *walker) removeExtra(d *dir, keep map[string]bool) {
	if d.node.Outcome == tree.Unreadable {
		return // reported by the walk
	}
	if d.mounted && (!d.node.Mount || len(keep) == 0) {
		w.ledger.Note(d.hostPath(w.to.Path), "delete", errNotEntered)
		return
	}
	extra, err := w.listExtra(d, keep)
	switch {
	case err != nil:
		w.fail(d.hostPath(w.to.Path), "delete", err)
	case len(extra) > 0 && !w.inSource(d):
		w.ledger.Note(d.hostPath(w.to.Path), "delete", errOnTheWay)
	case len(extra) > 0 && d.guarded, isRepository(extra):
		w.fail(d.hostPath(w.to.Path), "delete", errRepository)
	default:
		for _, name := range extra {
			w.removeEntry(d, name)
		}
	}
}

// listExtra lists the entries of d that are neither in keep nor the temporary name of one of these.
func (w *walker) listExtra(d *dir, keep map[string]bool) (extra []string, err error) {
	var growing map[string]bool // temporary names of files being written
	err = w.withDir(d, func(h *localfs.Dir) error {
		extra = extra[:0]
		err := eachName(h, func(name []byte) {
			if _, ok := keep[string(name)]; ok {
				keep[string(name)] = false
				return
			}
			if isTempName(string(name)) {
				if growing == nil {
					growing = tempNames(keep)
				}
				if growing[string(name)] {
					return
				}
			}
			extra = append(extra, string(name))
		})
		if err == nil && len(extra) > 0 {
			err = requireListed(h, keep)
		}
		return err
	})
	return extra, err
}

// removeEntry removes one extra entry of d, unless the selection excludes it.
func (w *walker) removeEntry(d *dir, name string) {
	at := path.Join(d.path, name)
	if w.sel.Take != nil {
		if take, _ := w.sel.Take(at, 0); !take {
			return
		}
	}
	n := uint64(0)
	err := w.withDir(d, func(h *localfs.Dir) error {
		var st localfs.Stat
		if w.to.Unasked || h.Lstat(name, &st) == nil && w.changedWhileAsked(st.Ctime) {
			return errChanged
		}
		removed, err := w.do.extra(h, name, at)
		n += removed
		return err
	})
	if err != nil {
		w.fail(filepath.Join(d.hostPath(w.to.Path), name), "delete", err)
	} else {
		w.planned(at, remove, reasonExtra)
	}
	w.ledger.Objects.Deleted.Add(n)
}

// inSource reports whether d lies in a source, so that the snapshot knows all its entries.
func (j *job) inSource(d *dir) bool {
	return len(j.sel.Sources) == 0 ||
		slices.ContainsFunc(j.sel.Sources, func(source string) bool { return snapshot.Within(d.path, source) })
}
