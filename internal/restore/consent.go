package restore

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ruleReplaces reports whether the overwrite rule lets n replace an existing object with status st.
func (j *job) ruleReplaces(n *tree.Node, st *localfs.Stat) bool {
	switch j.to.Overwrite {
	case Never:
		return false
	case IfNewer:
		return n.ModTime.Compare(st.Mtime) > 0
	case IfChanged:
		return st.Type != n.Type || st.Mtime != n.ModTime || n.Type == tree.File && st.Size != n.Size
	}
	return true
}

// keepsUnread reports whether the overwrite rule keeps existing files without reading them, whatever their time. Then
// small files too are written under a temporary name: a later run would take a partial file for the complete one. The
// other rules detect a partial file by its modification time, which is set last.
func (j *job) keepsUnread() bool { return j.to.Overwrite == Never || j.to.Overwrite == IfNewer }

// permits returns an error if the existing object of a must not make place for o.
func (j *job) permits(in *localfs.Dir, o *entry, a *action) error {
	switch {
	case o.dir.guarded:
		return errGuarded
	case j.to.Unasked && j.loses(in, o.node, a):
		return errUnasked
	// A restore that replaces another name of the object changes the ctime alone.
	case j.changedWhileAsked(a.old.Mtime) && j.changedWhileAsked(a.old.Ctime):
		return errChanged
	case a.old.Type == tree.Dir && !j.to.Delete && holdsEntries(in, o.node.Name):
		return errNotEmpty
	}
	return nil
}

func (j *job) changedWhileAsked(t tree.Time) bool {
	return !j.to.Asked.IsZero() && t.Std().After(j.to.Asked)
}

// changedSince reports whether an existing object with status st was changed after the snapshot, also if its
// modification time was set back.
func (j *job) changedSince(st *localfs.Stat) bool {
	return j.sel.Made != tree.Time{} && (st.Mtime.Compare(j.sel.Made) > 0 || st.Ctime.Compare(j.sel.Made) > 0)
}

// isUntouched reports whether the times of an existing file with status st are proof enough for a survey that it is n.
// A restore without consent compares the content all the same, and leaves the file if it differs.
func (j *job) isUntouched(n *tree.Node, st *localfs.Stat) bool {
	return st.Type == tree.File && n.Type == tree.File && st.Size == n.Size && st.Mtime == n.ModTime &&
		st.Ctime.Compare(j.sel.Made) <= 0
}

// loses reports whether something is lost if n replaces the existing object of a in the directory in: it has other
// content, and is not what a killed restore leaves of n.
func (j *job) loses(in *localfs.Dir, n *tree.Node, a *action) bool {
	st := &a.old
	switch {
	case st.Type != n.Type:
		return true
	case n.Type == tree.Dir:
		return false
	case n.Type != tree.File:
		if a.hold(in, n) != nil {
			return true
		}
		named := *st
		named.Links = 1 // its other names stay
		return !isSpecial(a.held, n, &named)
	case a.unlike, st.Size > n.Size, st.Size < n.Size && !j.mayBeHalfMade(n, st):
		return true
	case st.Size == 0:
		return false
	case a.hold(in, n) != nil:
		return true
	case st.Size == n.Size:
		return !j.sameContent(in.Context(), a.held, n)
	}
	return !j.isBeginning(in.Context(), a.held, n)
}

// mayBeHalfMade reports whether an existing file with status st can be what a killed restore leaves of the file n: the
// beginning of its content, with the time of the kill. Files of several chunks grow under a temporary name.
func (j *job) mayBeHalfMade(n *tree.Node, st *localfs.Stat) bool {
	return n.Links <= 1 && len(n.Content.Chunks) <= 1 && n.Content.List.IsZero() && st.Links <= 1 &&
		st.Mtime.Compare(j.sel.Made) > 0 && (j.survey == nil || j.survey.few())
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

// sameContent reads an object and reports whether it is a file with the content of n.
func (j *job) sameContent(ctx context.Context, e *localfs.Entry, n *tree.Node) bool {
	f, err := openReadable(e)
	return err == nil && j.compare(ctx, f, n, j.repo.Keys().Hasher()) == nil
}
