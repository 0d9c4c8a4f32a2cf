package restore

import (
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// special restores a symbolic link, fifo, socket or device.
func (w *walker) special(d *dir, n *tree.Node, at string) {
	defer w.clock.Enter(w.clock.Enter(report.Write))
	if n.Outcome >= tree.Skipped {
		w.ledger.Fail(at, "restore", errNoContent)
		return
	}
	if !d.there { // dry run
		w.ledger.Objects.Restored.Add(1)
		w.planned(at, actionRestore, reasonMissing)
		return
	}
	w.mapOwners(n)
	l := w.firstName(d, n)
	err := w.withDir(d, func(h *localfs.Dir) error {
		if !d.fresh {
			if done, err := w.compareSpecial(d, h, n, at, l); done || err != nil {
				return err
			}
		}
		ps, err := w.makeSpecial(d, h, n, l)
		w.noteProblems(at, ps)
		return err
	})
	switch {
	case errors.Is(err, errSame):
		w.ledger.Objects.Kept.Add(1)
		w.planned(at, actionLeave, reasonSame)
	case errors.Is(err, errKept):
		w.planned(at, actionLeave, reasonRule)
		if w.keepsUnread() {
			w.releaseName(l)
		}
		w.ledger.Objects.Kept.Add(1)
	case err != nil:
		w.failRestore(at, "restore", err)
	default:
		w.ledger.Objects.Restored.Add(1)
	}
}

// makeSpecial makes a special object with its metadata; l is set if it has several names. If a later run would mistake
// an object without metadata for a finished one, the object gets its name last.
func (w *walker) makeSpecial(d *dir, in *localfs.Dir, n *tree.Node, l *link) ([]localfs.Problem, error) {
	switch {
	case w.needsPrivateDir(d, in):
		return w.makeInPrivateDir(d, in, n, l)
	case !w.keepsUnread():
		if err := makeNode(in, n, n.Name); err != nil {
			return nil, appeared(err)
		}
		if d.plain {
			return w.maker.Entry(in, n.Name, n, firstNodeMode), nil
		}
		return in.Apply(n.Name, n, w.to.Apply), nil
	}
	as := tempName(n.Name)
	err := makeNode(in, n, as)
	if err != nil && in.Remove(as, false) == nil {
		err = makeNode(in, n, as)
	}
	if err != nil {
		return nil, err
	}
	return w.publish(d, in, as, in, n, l)
}

// makeInPrivateDir makes n in a private directory and moves it to its name when it is finished. In a shared directory,
// other users could replace the object between two calls.
func (w *walker) makeInPrivateDir(d *dir, in *localfs.Dir, n *tree.Node, l *link) ([]localfs.Problem, error) {
	as := tempName(n.Name)
	apart, err := makePrivateDir(in, as)
	if err != nil {
		return nil, err
	}
	defer func() {
		apart.Release()
		_ = in.Remove(as, true)
	}()
	if err := makeNode(apart, n, privateEntry); err != nil {
		return nil, err
	}
	return w.publish(d, apart, privateEntry, in, n, l)
}

// publish sets the metadata of the new object from/as, and then moves it to its name in d, open as in.
func (w *walker) publish(d *dir, from *localfs.Dir, as string, in *localfs.Dir, n *tree.Node,
	l *link) ([]localfs.Problem, error) {
	e, err := from.Pin(as, n.Type)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	l.setIdentity(e.Stat())
	what := w.to.Apply
	what.SkipFlags = true
	ps := e.Apply(n, what)
	if err := d.moveNew(from, in, as, n.Name); err != nil {
		_ = from.Remove(as, false)
		return ps, fmt.Errorf("give it its name: %w", err)
	}
	if n.Flags != 0 && !w.to.Apply.SkipFlags {
		ps = append(ps, e.Apply(n, onlyFlags(w.to.Apply))...)
	}
	return ps, nil
}

// compareSpecial compares n with the existing object of its name; l is set if it has several names. done is true if
// nothing is to be made. An error reports that the object is equal (errSame), or must not be replaced (errKept);
// otherwise it is removed. A comparison by name is enough to keep an object; before a change, it is pinned and compared
// again.
func (w *walker) compareSpecial(d *dir, in *localfs.Dir, n *tree.Node, at string, l *link) (done bool, err error) {
	var st localfs.Stat
	switch err := in.Lstat(n.Name, &st); {
	case errors.Is(err, localfs.ErrVanished):
		w.planned(at, actionRestore, reasonMissing)
		return w.to.DryRun, nil
	case err != nil:
		return false, err
	}
	if err := w.checkCaseClash(d, in, n.Name); err != nil {
		return false, err
	}
	link := func() (string, error) { return in.Readlink(n.Name) }
	switch {
	case !w.replaces(in, at, n, &st):
		l.setIdentity(&st)
		return false, errKept
	case isSpecial(link, n, &st):
		l.setIdentity(&st)
		switch differ := compareMetadata(namedEntry{dir: in, node: n}, n, &st, w.to.Apply); {
		case differ == 0:
			return true, errSame
		case w.to.DryRun:
			w.planned(at, actionUpdate, reasonMetadata(differ))
			return true, nil
		}
		if done, err := w.fixSpecialMetadata(in, n, at, l); done || err != nil {
			return done, err
		}
	case w.to.DryRun:
		if err := w.removeExisting(d, in, n, &st); err != nil {
			return false, err
		}
		w.countReplaced(w.changedSince(&st))
		w.planned(at, actionReplace, reasonDiffers(n, &st))
		return true, nil
	}
	if err := w.removeExisting(d, in, n, &st); err != nil {
		return false, err
	}
	w.countReplaced(w.changedSince(&st))
	return false, nil
}

// fixSpecialMetadata sets the metadata of the existing object n. done is false if n is to be made: because another
// object has taken the name, or because root would have to change the owner, and nothing shows that the object is ours.
func (w *walker) fixSpecialMetadata(in *localfs.Dir, n *tree.Node, at string, l *link) (done bool, err error) {
	e, err := in.Pin(n.Name, n.Type)
	if err != nil {
		return false, err
	}
	defer e.Close()
	if !isSpecial(e.Readlink, n, e.Stat()) {
		return false, nil
	}
	differ := compareMetadata(e, n, e.Stat(), w.to.Apply)
	if differ&partOwner != 0 && os.Geteuid() == 0 {
		return false, nil
	}
	l.setIdentity(e.Stat())
	if !w.fixMetadata(e, at, n, differ) {
		err = errSame
	}
	return true, err
}

// isSpecial reports whether an object with status st equals n apart from metadata, and has no more links. link reads
// it.
func isSpecial(link func() (string, error), n *tree.Node, st *localfs.Stat) bool {
	if st.Type != n.Type || st.Links > max(n.Links, 1) {
		return false
	}
	switch n.Type {
	case tree.Symlink:
		target, err := link()
		return err == nil && target == n.Target
	case tree.CharDevice, tree.BlockDevice:
		return st.Rdev == n.Device
	}
	return true
}

// firstNodeMode is the mode with which a special object is made.
const firstNodeMode = 0o600

func makeNode(in *localfs.Dir, n *tree.Node, as string) error {
	if n.Type == tree.Symlink {
		return in.Symlink(n.Target, as)
	}
	return in.Mknod(as, n.Type, firstNodeMode, n.Device)
}
