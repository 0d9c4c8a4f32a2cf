package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// dir is a directory of the target. Its own metadata is set when all its entries are finished.
type dir struct {
	parent   *dir
	name     string
	path     string
	there    bool       // exists in the target; false in a dry run, or before it is made
	dev, ino uint64     // identity; zero: unknown
	node     *tree.Node // nil: metadata is not restored
	later    *tree.Node // made when its first entry is restored
	broken   bool       // could not be made
	names    nameLister // of the snapshot; nil if clashes do not matter
	scope    uint64     // of inode numbers; changes at a mount point

	repository bool // is an existing repository, or lies in one: nothing in it is replaced

	shared bool // other users can change its names during the restore
	fresh  bool // made by this run, so other programs made whatever appears in it
	plain  bool // fresh, and new objects inherit nothing from it: localfs.Maker may be used

	incomplete bool // the snapshot lacks some of its entries
	mount      bool // was a mount point when it was backed up
	mounted    bool // is a mount point now

	deferring bool         // has deferred files; belongs to planReads
	pending   atomic.Int64 // unfinished entries, plus one for the walk

	naming sync.Mutex // held by moveNew: the call is not atomic on a file system without RENAME_NOREPLACE
}

// hostPath returns the path of d on this machine, where base is that of the target.
func (d *dir) hostPath(base string) string {
	if d.parent == nil {
		return base
	}
	return filepath.Join(d.parent.hostPath(base), d.name)
}

// pathOf returns the path of an entry of d inside the snapshot.
func (d *dir) pathOf(n *tree.Node) string { return path.Join(d.path, n.Name) }

// mountedIn reports whether d, with status st, is a mount point; in is its parent.
func (d *dir) mountedIn(in *localfs.Dir, st *localfs.Stat) bool {
	if d.parent.dev == 0 { // unknown: verify opens directories without making them
		return isMountPoint(in, st)
	}
	return st.Attr&localfs.AttrMountRoot != 0 || st.Dev != d.parent.dev
}

// addEntry adds one unfinished entry to d.
func (d *dir) addEntry() { d.pending.Add(1) }

// entryDone finishes one entry of d. The last one finishes d itself and may finish its ancestors.
func (j *job) entryDone(d *dir) {
	for d != nil && d.pending.Add(-1) == 0 {
		if err := j.finishDir(d); err != nil {
			j.fail(d.path, "restore", err)
		}
		j.handles.drop(d)
		j.clashes.forget(d)
		d = d.parent
	}
}

// finishDir sets the metadata of d and counts it.
func (j *job) finishDir(d *dir) error {
	switch {
	case d.node == nil:
		return j.restorePermissions(d)
	case d.there:
		return j.withDir(d, func(h *localfs.Dir) error { return j.finishDirIn(h, d) })
	case j.to.DryRun:
		j.count(d, true)
		j.planned(d.path, actionRestore, reasonMissing)
	}
	return nil
}

// count counts a directory. The target itself is not counted.
func (j *job) count(d *dir, restored bool) {
	switch {
	case d.parent == nil:
	case restored:
		j.ledger.Objects.Restored.Add(1)
	default:
		j.ledger.Objects.Kept.Add(1)
	}
}

func (j *job) finishDirIn(h *localfs.Dir, d *dir) error {
	if d.fresh {
		j.noteProblems(d.path, j.finishNewDir(h, d))
		j.count(d, true)
		return nil
	}
	st, err := h.Fstat()
	if err != nil {
		return err
	}
	was, widened := j.handles.widened.take(d)
	if widened {
		st.Mode = was
	}
	n := j.mapOwners(d.node)
	differ := compareMetadata(h.Self(), n, &st, j.to.Apply)
	if widened && differ.only(j.to.Apply).SkipMode {
		err = setPermissions(h.Self(), tree.Dir, was)
	}
	changed := j.fixMetadata(h.Self(), d.path, n, differ)
	j.count(d, changed)
	if changed {
		j.planned(d.path, actionUpdate, reasonMetadata(differ))
	} else {
		j.planned(d.path, actionLeave, reasonSame)
	}
	return err
}

// firstDirMode keeps all other users out of a directory until it is finished.
const firstDirMode = 0o700

// finishNewDir sets the metadata of a directory that this run made.
func (j *job) finishNewDir(h *localfs.Dir, d *dir) []localfs.Problem {
	n := j.mapOwners(d.node)
	if d.plain {
		return j.maker.Directory(h, n, firstDirMode)
	}
	return h.Apply(".", n, j.to.Apply)
}

// rename moves a finished object of d, open as in, from its temporary name to its own. It replaces an existing object
// only if replaces is set.
func (d *dir) rename(in *localfs.Dir, temp, name string, replaces bool) (err error) {
	if replaces {
		err = in.Rename(temp, name)
	} else {
		err = d.moveNew(in, in, temp, name)
	}
	if err != nil {
		return fmt.Errorf("give it its name: %w", err)
	}
	return nil
}

// moveNew moves the object from/temp to a new name in d, open as in.
func (d *dir) moveNew(from, in *localfs.Dir, temp, name string) error {
	d.naming.Lock()
	defer d.naming.Unlock()
	return appeared(from.MoveNew(in, temp, name))
}

// appeared explains the failure of a call that only makes new objects.
func appeared(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", errAppeared, err)
	}
	return err
}

// withDir calls act with d, open. If the permissions of d deny the call, they are widened and act is called again.
func (j *job) withDir(d *dir, act func(*localfs.Dir) error) error {
	h, err := j.handles.get(d)
	if err != nil {
		return err
	}
	defer h.Release()
	if err = act(h); isDenied(err) && j.handles.widened.widen(d, h, ".") {
		err = act(h)
	}
	return err
}
