package restore

import (
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
	id        identity
	namesLeft uint64
	done      bool
	ok        bool
	released  bool // the first name belongs to another object, which stays: the next name takes its part
	waiters   []*entry
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
		l.id = identityOf(st)
	}
}

// hasIdentity reports whether st belongs to that object.
func (l *link) hasIdentity(st *localfs.Stat) bool {
	return l.id == (identity{}) || l.id == identityOf(st)
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
	node := *n
	name := &entry{d, &node, at, l}
	if !l.done {
		l.waiters = append(l.waiters, name)
		w.mu.Unlock()
		return true
	}
	w.mu.Unlock()
	w.makeLinkName(name)
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

// finishLink records that the first name of an object is finished, and makes the names that waited for it. l may be
// nil.
func (j *job) finishLink(l *link, ok bool) {
	if l == nil {
		return
	}
	j.mu.Lock()
	l.done, l.ok = true, ok
	waiters := l.waiters
	l.waiters = nil
	j.mu.Unlock()
	for _, name := range waiters {
		j.makeLinkName(name)
	}
}

// makeLinkName makes one further name and finishes its entry.
func (j *job) makeLinkName(o *entry) {
	defer j.entryDone(o.dir)
	a, err := j.decideName(o)
	defer a.close()
	if err == nil && a.makes() {
		err = j.do.name(o, &a)
	}
	switch {
	case err != nil:
		j.failRestore(o.path, "restore", err)
	case a.what == leave:
		j.ledger.Objects.Kept.Add(1)
		j.planned(o.path, leave, a.why)
	default:
		j.ledger.Objects.Restored.Add(1)
		j.planned(o.path, a.what, reasonLink)
	}
	if o.node.Type == tree.File {
		j.ledger.Bytes.Restored.Add(o.node.Size)
	}
}

// identify returns the identity of the first name's object; zero if it does not exist.
func (j *job) identify(l *link) identity {
	if l.id != (identity{}) || !l.dir.there() {
		return l.id
	}
	var st localfs.Stat
	if err := j.withDir(l.dir, func(in *localfs.Dir) error { return in.Lstat(l.name, &st) }); err != nil {
		return identity{}
	}
	return identityOf(&st)
}

// linkTo makes o, whose name in the directory in is free. The first name is in the directory first. The link leads to
// the restored object, even if the first name was moved since.
func (j *job) linkTo(first, in *localfs.Dir, o *entry) error {
	l := o.link
	e, err := first.Pin(l.name, o.node.Type)
	if err != nil {
		return err
	}
	defer e.Close()
	if !l.hasIdentity(e.Stat()) {
		return errOther
	}
	if o.node.Flags != 0 { // immutable and append-only objects accept no further name
		_ = e.Unprotect()
	}
	err = e.Link(in, o.node.Name)
	if err != nil && o.node.Type == tree.File {
		return j.copyInstead(e, in, o, err)
	}
	if err == nil && o.node.Flags != 0 {
		j.noteProblems(o.path, e.Apply(o.node, j.to.Apply))
	}
	return err
}

// copyInstead copies the file for a target without hard links, or with too many of them, and adds a note to the report.
func (j *job) copyInstead(first *localfs.Entry, in *localfs.Dir, o *entry, reason error) error {
	from, err := openReadable(first)
	if err != nil {
		return err
	}
	ps, err := copyFile(from, in, o.node, j.to.Apply)
	if err == nil {
		j.ledger.Bytes.Written.Add(o.node.Size)
		copied := localfs.Problem{What: "hard link", Err: fmt.Errorf("a copy was made instead: %w", reason)}
		j.noteProblems(o.path, append(ps, copied))
	}
	return err
}
