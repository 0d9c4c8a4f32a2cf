package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// replaces reports whether the overwrite rule lets n, the object at that path, replace the one of in with status st. A
// survey replaces nothing.
func (j *job) replaces(in *localfs.Dir, at string, n *tree.Node, st *localfs.Stat) bool {
	switch {
	case !j.ruleReplaces(n, st):
		return false
	case j.survey == nil:
		return true
	case !j.isUntouched(n, st) && j.loses(in, n, st):
		j.survey.add(at)
	}
	return false
}

// isUntouched reports whether the times of an existing file with status st are proof enough for a survey that it is n.
// A restore without consent compares the content all the same, and leaves the file if it differs.
func (j *job) isUntouched(n *tree.Node, st *localfs.Stat) bool {
	return st.Type == tree.File && n.Type == tree.File && st.Size == n.Size && st.Mtime == n.ModTime &&
		!isLater(st.Ctime, j.sel.Made)
}

// permits returns an error if the object with status st in d, open as in, must not make place for n.
func (j *job) permits(d *dir, in *localfs.Dir, n *tree.Node, st *localfs.Stat) error {
	switch {
	case d.repository:
		return errGuarded
	case j.to.DryRun:
		return nil
	case j.to.Unasked && j.loses(in, n, st):
		return errUnasked
	// A restore that replaces another name of the object changes the ctime alone.
	case j.changedWhileAsked(st.Mtime) && j.changedWhileAsked(st.Ctime):
		return errChanged
	}
	return nil
}

func (j *job) changedWhileAsked(t tree.Time) bool {
	return !j.to.Asked.IsZero() && time.Unix(t.Sec, int64(t.Nsec)).After(j.to.Asked)
}

// keepsUnread reports whether the overwrite rule keeps existing files without reading them, whatever their time. Then
// small files too are written under a temporary name: a later run would take a partial file for the complete one. The
// other rules detect a partial file by its modification time, which is set last.
func (j *job) keepsUnread() bool { return j.to.Overwrite == Never || j.to.Overwrite == IfNewer }

// loses reports whether something is lost if n replaces the existing object of in with status st: it has other content,
// and is not what a killed restore leaves of n.
func (j *job) loses(in *localfs.Dir, n *tree.Node, st *localfs.Stat) bool {
	switch {
	case st.Type != n.Type:
		return true
	case n.Type == tree.Dir:
		return false
	case n.Type != tree.File:
		named := *st
		named.Links = 1 // its other names stay
		return !isSpecial(func() (string, error) { return in.Readlink(n.Name) }, n, &named)
	case st.Size > n.Size || st.Size < n.Size && !j.mayBeHalfMade(n, st):
		return true
	case st.Size == 0:
		return false
	}
	e, err := in.Pin(n.Name, tree.File)
	if err != nil {
		return true
	}
	defer e.Close()
	if e.Stat().Size == n.Size {
		return !j.sameContent(in.Context(), e, n)
	}
	return !j.isBeginning(in.Context(), e, n)
}

// mayBeHalfMade reports whether an existing file with status st can be what a killed restore leaves of the file n: the
// beginning of its content, with the time of the kill. Files of several chunks grow under a temporary name.
func (j *job) mayBeHalfMade(n *tree.Node, st *localfs.Stat) bool {
	return n.Links <= 1 && len(n.Content.Chunks) <= 1 && n.Content.List.IsZero() && st.Links <= 1 &&
		isLater(st.Mtime, j.sel.Made) && (j.survey == nil || j.survey.few())
}

// isBeginning reports whether the existing file e is the beginning of n, which has at most one chunk.
func (j *job) isBeginning(ctx context.Context, e *localfs.Entry, n *tree.Node) bool {
	whole := n.Content.Inline
	var err error
	if len(n.Content.Chunks) == 1 {
		if whole, err = j.repo.LoadBlob(ctx, n.Content.Chunks[0].ID); err != nil {
			return false
		}
	}
	begun := make([]byte, min(e.Stat().Size, uint64(len(whole))))
	f, err := openReadable(e)
	if err == nil {
		_, err = f.ReadAt(begun, 0)
	}
	return (err == nil || errors.Is(err, io.EOF)) && e.Stat().Size == uint64(len(begun)) && bytes.HasPrefix(whole, begun)
}

func (j *job) ruleReplaces(n *tree.Node, st *localfs.Stat) bool {
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

// checkCaseClash returns an error if the existing object name of d, open as in, is the place of another object of the
// snapshot.
func (j *job) checkCaseClash(d *dir, in *localfs.Dir, name string) error {
	if d.names == nil {
		return nil
	}
	first, err := j.clashes.find(d, in, name, d.names)
	if err == nil && first != "" {
		err = fmt.Errorf("it would take the place of %q: %w", first, errClash)
	}
	return err
}

// snapshotNames yields the names that are restored into d from the tree with that root.
func (w *walker) snapshotNames(ctx context.Context, d *dir, root format.ID, yield func(string)) error {
	err := tree.Walk(ctx, w.repo.LoadBlob, root, func(n *tree.Node) error {
		take, enter := true, false
		if w.sel.Take != nil {
			take, enter = w.sel.Take(d.pathOf(n), n.Type)
		}
		if take || enter {
			yield(n.Name)
		}
		return nil
	})
	if context.Cause(ctx) == nil && isPartialDamage(err) {
		return nil // the walk reports it
	}
	return err
}

// removeExisting makes space in d, open as in, for n, where an object of another type is. A directory is removed if it
// is empty or if Delete is set. A dry run only checks whether that would succeed.
func (j *job) removeExisting(d *dir, in *localfs.Dir, n *tree.Node, st *localfs.Stat) error {
	if err := j.permits(d, in, n, st); err != nil {
		return err
	}
	name := n.Name
	if j.to.DryRun {
		if st.Type == tree.Dir && !j.to.Delete && countTree(in, name) > 1 {
			return errNotEmpty
		}
		return nil
	}
	if err := unprotect(in, name); err != nil {
		return err
	}
	if st.Type != tree.Dir {
		return in.Remove(name, false)
	}
	if j.to.Delete {
		_, err := removeTree(in, name)
		return err
	}
	if err := in.Remove(name, true); err != nil {
		return fmt.Errorf("%w: %w", errNotEmpty, err)
	}
	return nil
}

// removeExtra removes entries of d that the snapshot does not have; keep has the names of the snapshot. It requires
// that the snapshot knows all entries: the directory was listed completely, no part of it was excluded, and no other
// file system was mounted there or is now.
func (w *walker) removeExtra(d *dir, keep map[string]bool) {
	if d.incomplete {
		return // reported by the walk
	}
	if d.mounted && (!d.mount || len(keep) == 0) {
		w.ledger.Note(d.hostPath(w.to.Path), "delete", errNotEntered)
		return
	}
	extra, err := w.listExtra(d, keep)
	switch {
	case err != nil:
		w.fail(d.hostPath(w.to.Path), "delete", err)
	case len(extra) > 0 && !w.inSource(d):
		w.ledger.Note(d.hostPath(w.to.Path), "delete", errOnTheWay)
	case len(extra) > 0 && d.repository, isRepository(extra):
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

// removeEntry removes one extra entry of d, unless the selection excludes it. A dry run counts only.
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
		if !w.to.DryRun && (w.to.Unasked || h.Lstat(name, &st) == nil && w.changedWhileAsked(st.Ctime)) {
			return errChanged
		}
		if w.to.DryRun {
			n = countTree(h, name)
			return nil
		}
		removed, err := removeTree(h, name)
		n += removed
		return err
	})
	if w.survey != nil && n > 0 {
		w.survey.addExtra(at, n)
	}
	if w.to.DryRun {
		w.planned(at, actionDelete, reasonExtra)
	} else if err != nil {
		w.fail(filepath.Join(d.hostPath(w.to.Path), name), "delete", err)
	}
	w.ledger.Objects.Deleted.Add(n)
	w.mu.Lock()
	w.result.Deleted += n
	w.mu.Unlock()
}

// inSource reports whether d lies in a source, so that the snapshot knows all its entries.
func (j *job) inSource(d *dir) bool {
	if len(j.sel.Sources) == 0 {
		return true
	}
	for _, source := range j.sel.Sources {
		if strings.HasPrefix(d.path+"/", strings.TrimSuffix(source, "/")+"/") {
			return true
		}
	}
	return false
}
