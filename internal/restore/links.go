package restore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/internal/restore/temp"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// linkKey is what the names of one object have in common, and mostly they alone: inode numbers mean something inside one file
// system only.
type linkKey struct{ scope, ino uint64 }

// link is an object with several names. The first name met is restored; the others become links to it.
type link struct {
	of      tree.Object
	dir     *dir // of the first name
	name    string
	unseen  uint64
	done    bool
	ok      bool
	vacant  bool // under that name is something else, which stays: the next name takes its place
	waiters []linkName
}

type linkName struct {
	dir  *dir
	node tree.Node
	path string
}

// firstName returns the link of which n is the first name, nil if it has one name only.
func (j *job) firstName(d *dir, n *tree.Node) *link {
	if n.Links < 2 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.find(linkKey{d.scope, n.Inode}, n.Object())
}

// find returns the link of an object, nil if none of its names was met yet. The caller holds j.mu.
func (j *job) find(key linkKey, of tree.Object) *link {
	for _, l := range j.links[key] {
		if l.of.Same(&of) {
			return l
		}
	}
	return nil
}

// drop forgets l, all names of which have been met. The caller holds j.mu.
func (j *job) drop(key linkKey, l *link) {
	j.links[key] = slices.DeleteFunc(j.links[key], func(one *link) bool { return one == l })
	if len(j.links[key]) == 0 {
		delete(j.links, key)
	}
}

// later reports whether n is a further name of something met before, and takes care of it then: now, or when the first
// name is finished.
func (w *walker) later(d *dir, n *tree.Node, at string) bool {
	key, of := linkKey{d.scope, n.Inode}, n.Object()
	w.mu.Lock()
	l := w.find(key, of)
	if l == nil {
		l = &link{of: of, dir: d, name: n.Name, unseen: n.Links - 1, done: n.Type != tree.File, ok: n.Type != tree.File}
		w.links[key] = append(w.links[key], l)
		w.mu.Unlock()
		return false
	}
	l.unseen--
	if l.vacant {
		l.vacant, l.dir, l.name = false, d, n.Name
		w.mu.Unlock()
		return false
	}
	if l.unseen == 0 {
		w.drop(key, l)
	}
	d.begin()
	name := linkName{d, *w.owned(n), at}
	if !l.done {
		l.waiters = append(l.waiters, name)
		w.mu.Unlock()
		return true
	}
	w.mu.Unlock()
	w.join(l, name)
	return true
}

// vacate says that what the first name stands for is not the object of the snapshot, and is to stay.
func (j *job) vacate(l *link) {
	if l != nil {
		j.mu.Lock()
		l.vacant = true
		j.mu.Unlock()
	}
}

// settle says that the first name of f is finished, and makes the others that waited for it.
func (j *job) settle(f *file, ok bool) {
	if f.link == nil {
		return
	}
	j.mu.Lock()
	f.link.done, f.link.ok = true, ok
	waiters := f.link.waiters
	f.link.waiters = nil
	j.mu.Unlock()
	for _, name := range waiters {
		j.join(f.link, name)
	}
}

// join makes one further name, and ends its part of its directory.
func (j *job) join(l *link, name linkName) {
	defer j.end(name.dir)
	switch err := j.joinName(l, &name); {
	case errors.Is(err, errKept), errors.Is(err, errSame):
		j.ledger.Objects.Kept.Add(1)
	case err != nil:
		j.failed(name.path, "restore", err)
	default:
		j.ledger.Objects.Restored.Add(1)
	}
	if name.node.Type == tree.File {
		j.ledger.Bytes.Restored.Add(name.node.Size)
	}
}

func (j *job) joinName(l *link, name *linkName) error {
	if !l.ok {
		return errors.New("the file it is another name of could not be restored")
	}
	if !l.dir.there || !name.dir.there { // in a dry run
		return nil
	}
	return j.in(l.dir, func(first *localfs.Dir) error {
		return j.in(name.dir, func(in *localfs.Dir) error { return j.joinIn(first, l.name, in, name) })
	})
}

// joinIn makes name, in the directory in, a further name of the entry old of first.
func (j *job) joinIn(first *localfs.Dir, old string, in *localfs.Dir, name *linkName) error {
	var there, here localfs.Stat
	if err := first.Lstat(old, &there); err != nil {
		if j.to.DryRun && errors.Is(err, localfs.ErrVanished) {
			return nil
		}
		return err
	}
	as := name.node.Name
	err := in.Lstat(as, &here)
	if err == nil && here.Ino == there.Ino && here.Dev == there.Dev {
		return errSame
	}
	if err == nil {
		if err := j.clash(name.dir, in, as); err != nil {
			return err
		}
	}
	switch {
	case err == nil && !j.replaces(&name.node, &here) && j.to.Overwrite != IfChanged:
		return errKept
	case j.to.DryRun:
		return nil
	case err == nil:
		if err := j.clear(in, as, &here); err != nil {
			return err
		}
	case !errors.Is(err, localfs.ErrVanished):
		return err
	}
	if name.node.Flags != 0 { // an immutable or append-only object takes no further name
		_ = first.Unprotect(old)
	}
	err = in.Link(first, old, as)
	if err != nil && name.node.Type == tree.File {
		err = j.copyInstead(first, old, in, name, err)
	}
	if err == nil && name.node.Flags != 0 {
		j.problems(name.path, in.Apply(as, &name.node, j.to.Apply))
	}
	return err
}

// copyInstead serves a target that has no hard links, or not that many: the name gets a copy, and the report a line.
func (j *job) copyInstead(first *localfs.Dir, old string, in *localfs.Dir, name *linkName, reason error) error {
	from, err := access.Open(first, old)
	if err != nil {
		return err
	}
	defer from.Close()
	ps, err := temp.Copy(from, in, &name.node, j.to.Apply)
	if err == nil {
		j.problems(name.path, append(ps, localfs.Problem{What: "hard link", Err: fmt.Errorf("a copy was made instead: %w", reason)}))
	}
	return err
}
