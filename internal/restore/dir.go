package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/internal/restore/removal"
	"github.com/tidemark-backup/tidemark/internal/restore/same"
	"github.com/tidemark-backup/tidemark/internal/restore/spelling"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// dir is a directory of the target that is being filled. Its own metadata comes last, when everything in it is there.
type dir struct {
	parent   *dir
	name     string
	path     string         // inside the snapshot
	there    bool           // it exists in the target: it does not in a dry run, or while it is still to be made
	dev, ino uint64         // which directory it is; zero: not known
	node     *tree.Node     // nil: its metadata is left as it is
	later    *tree.Node     // still to be made, when something is to be put into it
	broken   bool           // could not be made
	names    spelling.Names // what the snapshot has in it; nil if that does not matter
	scope    uint64         // of inode numbers: changes where a file system was mounted

	fresh bool // made by this run: whatever is in it, somebody else put there
	plain bool // fresh, and what is made in it has nothing but what it is given: localfs.Maker may make it

	partial bool // the snapshot does not hold all that was in it
	mount   bool // a file system was mounted here when it was backed up
	mounted bool // a file system is mounted here now

	waits   bool         // files of it are put off; belongs to the one who cuts windows
	pending atomic.Int64 // entries not finished, and one for the walk
}

// place returns the path of d on this machine; base is that of the target.
func (d *dir) place(base string) string {
	if d.parent == nil {
		return base
	}
	return filepath.Join(d.parent.place(base), d.name)
}

// at returns the path of an entry of d inside the snapshot.
func (d *dir) at(n *tree.Node) string { return path.Join(d.path, n.Name) }

// mountedIn reports whether a file system is mounted on d, of which st tells; in is its parent.
func (d *dir) mountedIn(in *localfs.Dir, st *localfs.Stat) bool {
	if d.parent.dev == 0 { // not known: somebody looked through the target without making anything
		return removal.Mounted(in, st)
	}
	return st.Attr&localfs.AttrMountRoot != 0 || st.Dev != d.parent.dev
}

// begin begins one more entry of d.
func (d *dir) begin() { d.pending.Add(1) }

// end finishes one entry of d, and d and its ancestors as far as that was their last one.
func (j *job) end(d *dir) {
	for d != nil && d.pending.Add(-1) == 0 {
		if err := j.finish(d); err != nil {
			j.tell(d.path, "restore", err)
		}
		j.handles.drop(d)
		j.spellings.Forget(d)
		d = d.parent
	}
}

// finish gives d its metadata, and counts it.
func (j *job) finish(d *dir) error {
	switch {
	case d.node == nil:
		return j.shut(d)
	case d.there:
		return j.in(d, func(h *localfs.Dir) error { return j.finishIn(h, d) })
	case j.to.DryRun:
		j.count(d, true)
	}
	return nil
}

// count counts a directory. The target, which gets the metadata of the one whose content was asked for, is none of the objects.
func (j *job) count(d *dir, restored bool) {
	switch {
	case d.parent == nil:
	case restored:
		j.ledger.Objects.Restored.Add(1)
	default:
		j.ledger.Objects.Kept.Add(1)
	}
}

func (j *job) finishIn(h *localfs.Dir, d *dir) error {
	if d.fresh {
		j.problems(d.path, j.finishNew(h, d))
		j.count(d, true)
		return nil
	}
	st, err := h.Fstat()
	if err != nil {
		return err
	}
	was, widened := j.handles.widened.Take(d)
	if widened {
		st.Mode = was
	}
	n := j.owned(d.node)
	differ := same.Metadata(h, ".", n, &st, j.to.Apply)
	if widened && differ.Only(j.to.Apply).SkipMode {
		err = access.Set(h, ".", tree.Dir, was)
	}
	j.count(d, j.adjust(h, ".", d.path, n, differ))
	return err
}

// firstDirMode are the permissions of a directory until it is finished: nobody else comes into it before.
const firstDirMode = 0o700

// finishNew gives a directory that was made by this run its metadata.
func (j *job) finishNew(h *localfs.Dir, d *dir) []localfs.Problem {
	n := j.owned(d.node)
	if d.plain {
		return j.maker.Directory(h, n, firstDirMode)
	}
	return h.Apply(".", n, j.to.Apply)
}

// rename gives what is finished in d, which in is, its name. It takes nobody's place unless that was found there and is to
// go.
func (d *dir) rename(in *localfs.Dir, temp, name string, replaces bool) (err error) {
	if replaces {
		err = in.Rename(temp, name)
	} else {
		err = appeared(in.RenameNew(temp, name))
	}
	if err != nil {
		return fmt.Errorf("give it its name: %w", err)
	}
	return nil
}

// appeared explains why something could not be made by a call that makes new things only.
func appeared(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", errAppeared, err)
	}
	return err
}

// in calls act with d, open. If we are shut out of d, although it is ours, it is opened to us and act is called once more.
func (j *job) in(d *dir, act func(*localfs.Dir) error) error {
	h, err := j.handles.get(d)
	if err != nil {
		return err
	}
	defer h.Release()
	if err = act(h); access.Denied(err) && j.handles.widened.Widen(d, h, ".") {
		err = act(h)
	}
	return err
}
