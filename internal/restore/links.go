package restore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// linkKey groups names that probably belong to one object: inode numbers are unique within one file system only.
type linkKey struct{ scope, ino uint64 }

// link is an object with several names. The first one is restored; the others become links to it.
type link struct {
	object    tree.Object
	dir       *dir // of the first name
	name      string
	dev       uint64 // identity; ino zero: unknown
	ino       uint64
	namesLeft uint64
	done      bool
	ok        bool
	released  bool // the first name belongs to another object, which stays: the next name takes its part
	waiters   []linkEntry
}

type linkEntry struct {
	dir  *dir
	node tree.Node
	path string
}

// firstName returns the link that n is the first name of, or nil if n has one name only.
func (j *job) firstName(d *dir, n *tree.Node) *link {
	if n.Links < 2 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.find(linkKey{d.scope, n.Inode}, n.Object())
}

// find returns the link of an object, or nil before its first name. The caller holds j.mu.
func (j *job) find(key linkKey, of tree.Object) *link {
	for _, l := range j.links[key] {
		if l.object.Same(&of) {
			return l
		}
	}
	return nil
}

// drop forgets l after its last name. The caller holds j.mu.
func (j *job) drop(key linkKey, l *link) {
	j.links[key] = slices.DeleteFunc(j.links[key], func(one *link) bool { return one == l })
	if len(j.links[key]) == 0 {
		delete(j.links, key)
	}
}

// setIdentity records which object of the target the link stands for. l may be nil.
func (l *link) setIdentity(st *localfs.Stat) {
	if l != nil {
		l.dev, l.ino = st.Dev, st.Ino
	}
}

// hasIdentity reports whether st belongs to that object.
func (l *link) hasIdentity(st *localfs.Stat) bool {
	return l.ino == 0 || l.ino == st.Ino && l.dev == st.Dev
}

// addLinkName reports whether n is a further name of an earlier object, and makes it now or when that object is
// finished.
func (w *walker) addLinkName(d *dir, n *tree.Node, at string) bool {
	key, of := linkKey{d.scope, n.Inode}, n.Object()
	w.mu.Lock()
	l := w.find(key, of)
	if l == nil {
		done := n.Type != tree.File
		l = &link{object: of, dir: d, name: n.Name, namesLeft: n.Links - 1, done: done, ok: done}
		w.links[key] = append(w.links[key], l)
		w.mu.Unlock()
		return false
	}
	l.namesLeft--
	if l.released {
		l.released, l.dir, l.name = false, d, n.Name
		w.mu.Unlock()
		return false
	}
	if l.namesLeft == 0 {
		w.drop(key, l)
	}
	d.addEntry()
	name := linkEntry{d, *w.mapOwners(n), at}
	if !l.done {
		l.waiters = append(l.waiters, name)
		w.mu.Unlock()
		return true
	}
	w.mu.Unlock()
	w.makeLinkName(l, name)
	return true
}

// releaseName records that the first name stays with another object.
func (j *job) releaseName(l *link) {
	if l != nil {
		j.mu.Lock()
		l.released = true
		j.mu.Unlock()
	}
}

// finishLink records that the first name of f is finished, and makes the names that waited for it.
func (j *job) finishLink(f *file, ok bool) {
	if f.link == nil {
		return
	}
	j.mu.Lock()
	f.link.done, f.link.ok = true, ok
	waiters := f.link.waiters
	f.link.waiters = nil
	j.mu.Unlock()
	for _, name := range waiters {
		j.makeLinkName(f.link, name)
	}
}

// makeLinkName makes one further name and finishes its entry.
func (j *job) makeLinkName(l *link, name linkEntry) {
	defer j.entryDone(name.dir)
	switch err := j.linkName(l, &name); {
	case errors.Is(err, errKept), errors.Is(err, errSame):
		j.ledger.Objects.Kept.Add(1)
		j.planned(name.path, actionLeave, err.Error())
	case err != nil:
		j.failRestore(name.path, "restore", err)
	default:
		j.ledger.Objects.Restored.Add(1)
		j.planned(name.path, actionRestore, reasonLink)
	}
	if name.node.Type == tree.File {
		j.ledger.Bytes.Restored.Add(name.node.Size)
	}
}

func (j *job) linkName(l *link, name *linkEntry) error {
	if !l.ok {
		return errors.New("the file it is another name of could not be restored")
	}
	if !l.dir.there || !name.dir.there { // dry run
		return nil
	}
	return j.withDir(l.dir, func(first *localfs.Dir) error {
		return j.withDir(name.dir, func(in *localfs.Dir) error { return j.replaceWithLink(first, l, in, name) })
	})
}

// replaceWithLink makes name, in the directory in, a further name of l, whose first name is in the directory first.
func (j *job) replaceWithLink(first *localfs.Dir, l *link, in *localfs.Dir, name *linkEntry) error {
	var there, here localfs.Stat
	old := l.name
	if err := first.Lstat(old, &there); err != nil {
		if j.to.DryRun && errors.Is(err, localfs.ErrVanished) {
			return nil
		}
		return err
	}
	as := name.node.Name
	if !l.hasIdentity(&there) {
		return errOther
	}
	err := in.Lstat(as, &here)
	if err == nil && here.Ino == there.Ino && here.Dev == there.Dev {
		return errSame
	}
	if err == nil {
		if err := j.checkCaseClash(name.dir, in, as); err != nil {
			return err
		}
	}
	switch {
	case err == nil && !j.replaces(in, name.path, &name.node, &here) && j.to.Overwrite != IfChanged:
		return errKept
	case err == nil:
		err := j.removeExisting(name.dir, in, &name.node, &here)
		if err == nil {
			j.countReplaced(j.changedSince(&here))
		}
		if err != nil || j.to.DryRun {
			return err
		}
	case j.to.DryRun:
		return nil
	case !errors.Is(err, localfs.ErrVanished):
		return err
	}
	return j.linkTo(first, l, in, name)
}

// linkTo makes the name, which is free. The link leads to the restored object, even if the first name was moved since.
func (j *job) linkTo(first *localfs.Dir, l *link, in *localfs.Dir, name *linkEntry) error {
	e, err := first.Pin(l.name, name.node.Type)
	if err != nil {
		return err
	}
	defer e.Close()
	if !l.hasIdentity(e.Stat()) {
		return errOther
	}
	if name.node.Flags != 0 { // immutable and append-only objects accept no further name
		_ = e.Unprotect()
	}
	err = e.Link(in, name.node.Name)
	if err != nil && name.node.Type == tree.File {
		return j.copyInstead(e, in, name, err)
	}
	if err == nil && name.node.Flags != 0 {
		j.noteProblems(name.path, e.Apply(&name.node, j.to.Apply))
	}
	return err
}

// copyInstead copies the file for a target without hard links, or with too many of them, and adds a note to the report.
func (j *job) copyInstead(first *localfs.Entry, in *localfs.Dir, name *linkEntry, reason error) error {
	from, err := openReadable(first)
	if err != nil {
		return err
	}
	ps, err := copyFile(from, in, &name.node, j.to.Apply)
	if err == nil {
		j.ledger.Bytes.Written.Add(name.node.Size)
		copied := localfs.Problem{What: "hard link", Err: fmt.Errorf("a copy was made instead: %w", reason)}
		j.noteProblems(name.path, append(ps, copied))
	}
	return err
}
