package restore

import (
	"container/list"
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
	parent *dir      // nil: the target itself
	node   tree.Node // in the snapshot, with mapped owners; the target itself has no name
	path   string    // inside the snapshot
	taken  bool      // its metadata is restored
	scope  uint64    // of inode numbers; changes at a mount point

	state   dirState
	instead bool // in a dry run: of an object of another type
	id      identity
	guarded bool // is an existing repository, or lies in one: nothing in it is replaced
	shared  bool // other users can change its names during the restore
	plain   bool // made, and new objects inherit nothing from it: localfs.Maker may be used
	mounted bool // is a mount point now

	opened *localfs.Dir  // nil: closed, or the target; belongs to handles, as does used
	used   *list.Element // in handles.used

	spelling sync.Mutex // guards spelled
	spelled  spellings  // how it compares names

	deferring bool         // has deferred files; belongs to planReads
	pending   atomic.Int64 // unfinished entries, plus one for the walk
}

// dirState is what is known of a directory in the target.
type dirState uint8

const (
	postponed dirState = iota // nothing: the directory is entered or made for its first entry
	failed                    // it could not be entered or made
	absent                    // a dry run does not make it
	made                      // this run made it, so other programs make whatever appears in it
	vacant                    // it was there and empty when this run began
	occupied                  // it was there
)

func (d *dir) there() bool { return d.state >= made }

// empty reports whether no entry of d existed when it was made or first read. Then nothing is looked for in it: an
// entry is made by a call that fails if the name exists.
func (d *dir) empty() bool { return d.state == absent || d.state == made || d.state == vacant }

// identity identifies an object of the target; zero: unknown.
type identity struct{ dev, ino uint64 }

func identityOf(st *localfs.Stat) identity { return identity{st.Dev, st.Ino} }

// hostPath returns the path of d on this machine, where base is that of the target.
func (d *dir) hostPath(base string) string {
	if d.parent == nil {
		return base
	}
	return filepath.Join(d.parent.hostPath(base), d.node.Name)
}

// pathOf returns the path of an entry of d inside the snapshot.
func (d *dir) pathOf(n *tree.Node) string { return path.Join(d.path, n.Name) }

// takes reports whether n in d is restored, and whether to descend into it.
func (s *Selection) takes(d *dir, n *tree.Node) (take, enter bool) {
	if s.Take == nil {
		return true, true
	}
	return s.Take(d.pathOf(n), n.Type)
}

// mountedIn reports whether d, with status st, is a mount point; in is its parent.
func (d *dir) mountedIn(in *localfs.Dir, st *localfs.Stat) bool {
	if d.parent.id == (identity{}) { // unknown: verify opens directories without making them
		return isMountPoint(in, st)
	}
	return st.Attr&localfs.AttrMountRoot != 0 || st.Dev != d.parent.id.dev
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
		d = d.parent
	}
}

// finishDir sets the metadata of d and counts it.
func (j *job) finishDir(d *dir) error {
	switch {
	case !d.taken:
		return j.restorePermissions(d)
	case d.there():
		return j.withDir(d, func(h *localfs.Dir) error { return j.finishDirIn(h, d) })
	case d.state == absent:
		j.count(d, true)
		if d.instead {
			j.planned(d.path, replace, reasonType)
		} else {
			j.planned(d.path, create, reasonMissing)
		}
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
	if d.state == made {
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
	self := h.Self()
	a := action{what: leave, why: reasonSame, held: self, differ: compareMetadata(self, &d.node, &st, j.to.Apply)}
	if widened && a.differ.only(j.to.Apply).SkipMode {
		err = setPermissions(self, tree.Dir, was)
	}
	changed := false
	if a.differ != 0 {
		a.what, a.why = update, reasonMetadata(a.differ)
		changed = j.do.update(&entry{node: &d.node, path: d.path}, &a)
	}
	j.count(d, changed)
	j.planned(d.path, a.what, a.why)
	return err
}

// firstDirMode keeps all other users out of a directory until it is finished.
const firstDirMode = 0o700

// finishNewDir sets the metadata of a directory that this run made.
func (j *job) finishNewDir(h *localfs.Dir, d *dir) []localfs.Problem {
	if d.plain {
		return j.maker.Directory(h, &d.node, firstDirMode)
	}
	return h.Apply(".", &d.node, j.to.Apply)
}

// nameNew moves the finished object temp of the directory from to a new name in another one.
func nameNew(from, in *localfs.Dir, temp, name string) error {
	if err := from.MoveNew(in, temp, name); err != nil {
		return fmt.Errorf("give it its name: %w", appeared(err))
	}
	return nil
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
