package localfs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Maker makes new objects with few system calls. It expects that a new object belongs to us and has the requested
// permissions and nothing else, makes only the calls that are needed then, and compares the status once. If that
// differs from the node, apply sets everything and reports what could not be set. Wrong expectations only cost time.
//
// It is for directories whose Plain is true, since a status has neither attributes nor flags. A Maker learns what the
// process and the target add to new objects, and is safe for concurrent use.
type Maker struct {
	what   ApplyOptions
	owner  atomic.Uint64 // user<<32 | group of a new object
	masked atomic.Uint32 // permission bits that new objects do not get
}

// NewMaker returns a maker of objects with the properties of what.
func NewMaker(what ApplyOptions) *Maker {
	m := &Maker{what: what}
	m.owner.Store(ownerOf(uint32(unix.Geteuid()), uint32(unix.Getegid())))
	return m
}

const newFile = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC

// createAt makes and opens a file, which must not exist. It follows no symbolic link.
func createAt(dirfd int, name string, mode uint32) (int, error) {
	return openatMode(dirfd, name, newFile, mode)
}

func ownerOf(uid, gid uint32) uint64 { return uint64(uid)<<32 | uint64(gid) }

// Plain reports whether new objects in d inherit no attributes, ACLs or flags, also in directories made below it, and
// only we and root can change that. On macOS it is always false.
func (d *Dir) Plain() bool {
	grant, err := d.ioctx.begin(iopolicy.Metadata, 0)
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

// File makes the regular file name in a plain directory, with content and metadata. It is one operation, unless the
// gate limits its size. The file must not exist. The modification time is set last, so a partial file never looks
// complete. made reports whether the file exists; with an error, the caller removes it.
func (m *Maker) File(d *Dir, name string, content []byte, n *tree.Node) (made bool, ps []Problem, err error) {
	if err := checkName(name); err != nil {
		return false, nil, wrap("create", name, err)
	}
	kind := iopolicy.Write
	if len(content) == 0 {
		kind = iopolicy.Metadata
	}
	grant, err := d.ioctx.begin(kind, len(content))
	if err != nil {
		return false, nil, wrap("create", name, err)
	}
	mode := m.firstMode(n)
	fd, err := createAt(d.fd, name, mode)
	if err != nil {
		grant.End(0)
		return false, nil, wrap("create", name, err)
	}
	w := d.newWriter(fd)
	done := 0
	if grant.Max == 0 || len(content) <= grant.Max {
		done, err = w.writeStart(content, grant.Max > 0)
	}
	if err == nil && done == len(content) {
		if o := (object{fd: fd, host: d.host}); !m.setExpected(&o, n, mode) {
			ps = o.apply(n, m.what)
		}
		grant.End(done)
	} else if grant.End(done); err == nil {
		if _, err = w.WriteAt(content[done:], int64(done)); err == nil {
			ps = w.SetMeta(n, m.what)
		}
	}
	closeErr := w.Close()
	if err == nil {
		err = closeErr
	}
	return true, ps, wrap("write", name, err)
}

// firstMode returns the mode with which a file is made: its final one, unless that would deny its owner setting
// attributes. Other users cannot enter the directory until it is finished.
func (m *Maker) firstMode(n *tree.Node) uint32 {
	const private = 0o600
	if m.what.SkipMode || len(n.Xattrs) > 0 && n.Mode&private != private {
		return private
	}
	return n.Mode & 0o777
}

// Entry is Dir.Apply for an entry that was just made in a plain directory with the given mode.
func (m *Maker) Entry(d *Dir, name string, n *tree.Node, mode uint32) []Problem {
	if n.Flags != 0 && !m.what.SkipFlags || checkName(name) != nil {
		return d.Apply(name, n, m.what)
	}
	return d.ioctx.setAll("metadata", func() []Problem {
		if m.setExpected(d.object(name), n, mode) {
			return nil
		}
		return d.applyTo(name, n, m.what)
	})
}

// Directory is Dir.Apply for the plain directory d itself, made with the given mode, after all its entries.
func (m *Maker) Directory(d *Dir, n *tree.Node, mode uint32) []Problem {
	if n.Flags != 0 && !m.what.SkipFlags {
		return d.Apply(".", n, m.what)
	}
	o := object{fd: d.fd, host: d.host}
	return d.ioctx.setAll("metadata", func() []Problem {
		if m.setExpected(&o, n, mode) {
			return nil
		}
		return o.apply(n, m.what)
	})
}

// setExpected sets the metadata of n on a new object, in the order of apply, without what the object is expected to
// have. It reports whether the result is complete.
func (m *Maker) setExpected(o *object, n *tree.Node, mode uint32) bool {
	what := &m.what
	foreign := !what.SkipOwner && m.owner.Load() != ownerOf(n.UID, n.GID)
	if foreign && o.chown(int(n.UID), int(n.GID)) != nil || !m.setXattrs(o, n, false) {
		return false
	}
	if modeCounts := n.Type != tree.Symlink || symlinksHaveModes; modeCounts && !what.SkipMode &&
		n.Mode&0o7777 != mode&^m.masked.Load() && o.chmod(n.Mode&0o7777) != nil {
		return false
	}
	if !m.setXattrs(o, n, true) || !what.SkipTimes && o.setTimes(n) != nil {
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

// setXattrs sets the ACLs (acls set) or all other extended attributes.
func (m *Maker) setXattrs(o *object, n *tree.Node, acls bool) bool {
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

// learn records unexpected properties of a new object: masked permission bits, and the group of its directory.
func (m *Maker) learn(n *tree.Node, st *Stat, mode uint32, chowned bool) {
	if !m.what.SkipOwner && !chowned {
		m.owner.Store(ownerOf(st.UID, st.GID))
	}
	if asked := n.Mode & 0o7777; n.Type == tree.File && !m.what.SkipMode && asked == mode && st.Mode&^asked == 0 {
		m.masked.Or(asked &^ st.Mode)
	}
}
