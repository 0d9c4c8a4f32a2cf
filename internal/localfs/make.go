package localfs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Maker makes new objects with their content and metadata in as few calls as can be. It expects an object that was made a
// moment ago to be ours, to have the permissions that were asked for and nothing else, makes only the calls that are
// needed then, and looks once at what came out. Where that is not what the node says, Dir.Apply does the rest in its own
// careful way and tells what could not be set; so what is expected decides about speed alone.
//
// It is only for directories of which Dir.Plain is true: a look tells owner, mode and time, but neither attributes nor
// flags. A Maker learns what the process and the target add to new objects, and may be used by several goroutines.
type Maker struct {
	what   ApplyOptions
	owner  atomic.Uint64 // user<<32 | group of a new object
	masked atomic.Uint32 // permission bits that a new object does not get
}

// NewMaker returns a Maker that sets of the metadata what is not left out.
func NewMaker(what ApplyOptions) *Maker {
	m := &Maker{what: what}
	m.owner.Store(ownerOf(uint32(unix.Geteuid()), uint32(unix.Getegid())))
	return m
}

func ownerOf(uid, gid uint32) uint64 { return uint64(uid)<<32 | uint64(gid) }

// Plain reports whether it is known that nothing made in d, nor below directories made in it, gets attributes, access
// rules or flags from there, and that nobody but us and root can change that. On macOS it never is.
func (d *Dir) Plain() bool {
	grant, err := d.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return false
	}
	defer grant.End(0)
	var st Stat
	if fstat(d.fd, &st) != nil || st.UID != 0 && st.UID != uint32(unix.Geteuid()) {
		return false
	}
	return d.inheritsNothing()
}

// File makes the regular file name in a plain directory, with content and metadata: one operation of the gate, unless that
// lets no more through at once than a part of it. The file must not exist. Its modification time is the last thing it
// gets, so that half a file never looks like the whole one. made reports whether it is there, which it may be beside an
// error, without all of its content: then it is for the caller to remove.
func (m *Maker) File(d *Dir, name string, content []byte, n *tree.Node) (made bool, ps []Problem, err error) {
	if err := checkName(name); err != nil {
		return false, nil, failed("create", name, err)
	}
	kind := iopolicy.Write
	if len(content) == 0 {
		kind = iopolicy.Metadata
	}
	grant, err := d.door.begin(kind, len(content))
	if err != nil {
		return false, nil, failed("create", name, err)
	}
	mode := m.firstMode(n)
	fd, err := createAt(d.fd, name, mode)
	if err != nil {
		grant.End(0)
		return false, nil, failed("create", name, err)
	}
	w := d.newWriter(fd)
	done := 0
	if grant.Max == 0 || len(content) <= grant.Max {
		done, err = w.pour(content, grant.Max > 0)
	}
	if err == nil && done == len(content) {
		o := object{fd: fd, host: d.host}
		ps = m.settle(&o, n, mode)
		grant.End(done)
	} else if grant.End(done); err == nil {
		if _, err = w.WriteAt(content[done:], int64(done)); err == nil {
			ps = w.SetMeta(n, m.withoutFlags())
		}
	}
	closeErr := w.Close()
	if err == nil {
		err = closeErr
	}
	if err != nil {
		err = failed("write", name, err)
	}
	return true, ps, err
}

// withoutFlags is for files: an immutable one could not be given another name, so the caller sets flags when all is done.
func (m *Maker) withoutFlags() ApplyOptions {
	what := m.what
	what.SkipFlags = true
	return what
}

// firstMode returns the permissions with which a file begins: its last ones, unless its own owner could not give it
// attributes then. Until it is finished it lies in a directory that only we can enter.
func (m *Maker) firstMode(n *tree.Node) uint32 {
	const private = 0o600
	if m.what.SkipMode || len(n.Xattrs) > 0 && n.Mode&private != private {
		return private
	}
	return n.Mode & 0o777
}

// Create makes the file name in a plain directory and opens it: Dir.CreateFile for what is too large for File. Set its
// metadata with Finish.
func (m *Maker) Create(d *Dir, name string, n *tree.Node) (*Writer, error) {
	return d.createWriter(name, m.firstMode(n))
}

// Finish is Writer.SetMeta of all but flags, for a file that Create made.
func (m *Maker) Finish(w *Writer, n *tree.Node) []Problem {
	grant, err := w.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return []Problem{{What: "metadata", Err: err}}
	}
	defer grant.End(0)
	return m.settle(&object{fd: w.fd, host: w.host}, n, m.firstMode(n))
}

// settle gives a new file its metadata.
func (m *Maker) settle(o *object, n *tree.Node, mode uint32) []Problem {
	if m.expected(o, n, mode) {
		return nil
	}
	return o.apply(n, m.withoutFlags())
}

// Entry is Dir.Apply on the entry name, which was made in a plain directory a moment ago with permissions mode.
func (m *Maker) Entry(d *Dir, name string, n *tree.Node, mode uint32) []Problem {
	if n.Flags != 0 && !m.what.SkipFlags || checkName(name) != nil {
		return d.Apply(name, n, m.what)
	}
	grant, err := d.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return []Problem{{What: "metadata", Err: err}}
	}
	defer grant.End(0)
	o := d.object(name)
	if m.expected(o, n, mode) {
		return nil
	}
	return o.apply(n, m.what)
}

// Directory is Dir.Apply on d itself, a plain directory that was made with permissions mode and has all its entries.
func (m *Maker) Directory(d *Dir, n *tree.Node, mode uint32) []Problem {
	if n.Flags != 0 && !m.what.SkipFlags {
		return d.Apply(".", n, m.what)
	}
	grant, err := d.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return []Problem{{What: "metadata", Err: err}}
	}
	defer grant.End(0)
	if m.expected(&object{fd: d.fd, host: d.host}, n, mode) {
		return nil
	}
	return d.object(".").apply(n, m.what)
}

// expected sets the metadata of n on an object that was made with permissions mode in a plain directory, in the order of
// apply, leaving out what a new object has anyway, and reports whether it is all there now.
func (m *Maker) expected(o *object, n *tree.Node, mode uint32) bool {
	what := &m.what
	foreign := !what.SkipOwner && m.owner.Load() != ownerOf(n.UID, n.GID)
	if foreign && o.chown(int(n.UID), int(n.GID)) != nil || !m.attributes(o, n, false) {
		return false
	}
	if modeCounts := n.Type != tree.Symlink || symlinksHaveModes; modeCounts && !what.SkipMode &&
		n.Mode&0o7777 != mode&^m.masked.Load() && o.chmod(n.Mode&0o7777) != nil {
		return false
	}
	if !m.attributes(o, n, true) || !what.SkipTimes && o.setTimes(n) != nil {
		return false
	}
	var st Stat
	if o.stat(&st) != nil || st.Type != n.Type {
		return false
	}
	var ps problems
	o.compare(n, what, &st, &ps)
	if len(ps) > 0 {
		m.learn(n, &st, mode, foreign)
	}
	return len(ps) == 0
}

// attributes sets the ACLs (acls set) or all other extended attributes.
func (m *Maker) attributes(o *object, n *tree.Node, acls bool) bool {
	if m.what.SkipXattrs {
		return true
	}
	for i := range n.Xattrs {
		if x := &n.Xattrs[i]; isACL(x.Name) == acls && o.setXattr(x.Name, x.Value) != nil {
			return false
		}
	}
	return true
}

// learn remembers what a new object has that was not expected: permissions without those that the process masks, and the
// group of its directory.
func (m *Maker) learn(n *tree.Node, st *Stat, mode uint32, chowned bool) {
	if !m.what.SkipOwner && !chowned {
		m.owner.Store(ownerOf(st.UID, st.GID))
	}
	if asked := n.Mode & 0o7777; n.Type == tree.File && !m.what.SkipMode && asked == mode && st.Mode&^asked == 0 {
		m.masked.Or(asked &^ st.Mode)
	}
}
