package localfs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// ApplyOptions excludes parts of the metadata. The zero value sets everything that the node holds.
type ApplyOptions struct {
	SkipOwner    bool
	SkipMode     bool
	SkipXattrs   bool // including ACLs
	SkipTimes    bool
	SkipFlags    bool
	ForeignFlags bool // the node comes from another platform, whose flags have other meanings

	skipACLs, onlyACLs bool // of the attributes
}

// Late reports whether n has metadata that can forbid renaming and removing an object: flags and, on macOS, an access
// control list. It is set when the object has its name.
func Late(n *tree.Node) bool { return late(n, aclsForbid) }

func late(n *tree.Node, aclsForbid bool) bool {
	return n.Flags != 0 || aclsForbid && slices.ContainsFunc(n.Xattrs, func(x tree.Xattr) bool { return isACL(x.Name) })
}

// BeforeName returns what without that metadata.
func (what ApplyOptions) BeforeName() ApplyOptions {
	what.SkipFlags, what.skipACLs = true, aclsForbid
	return what
}

// AfterName returns that metadata alone.
func (what ApplyOptions) AfterName() ApplyOptions {
	return ApplyOptions{SkipOwner: true, SkipMode: true, SkipTimes: true, SkipXattrs: what.SkipXattrs || !aclsForbid,
		onlyACLs: true, SkipFlags: what.SkipFlags, ForeignFlags: what.ForeignFlags}
}

// object is one file-system object: an open file or directory (name empty), an object held by an O_PATH descriptor
// (pinned), or the entry name of an open directory (which may be "."). Symbolic links are not followed.
type object struct {
	fd     int
	name   string
	host   *host
	pinned bool // Linux only
}

func (d *Dir) object(name string) *object { return &object{fd: d.fd, name: name, host: d.host} }

// Apply sets the metadata of n on the entry name, or on the directory itself if name is ".". The object must have n's
// type. Directories are set after their children, which change the directory's times, and which a read-only mode would
// lock out. The result lists what could not be set, or was not stored as set; the rest is set nevertheless.
//
// The order matters. A change of owner clears setuid, setgid and capabilities, so the owner is first. Then come the
// extended attributes, which need a writable file, the mode, and the ACLs, which refine the mode. The flags are last,
// since an immutable object accepts no more changes.
func (d *Dir) Apply(name string, n *tree.Node, what ApplyOptions) []Problem {
	if err := checkNameOrSelf(name); err != nil {
		return []Problem{{What: "name", Err: wrap("set metadata of", name, err)}}
	}
	if name == "." { // by descriptor: after the mode is set, lookups in the directory may be denied
		return d.Self().Apply(n, what)
	}
	return d.ioctx.setAll("metadata", func() []Problem { return d.applyTo(name, n, what) })
}

// applyTo is Apply for an entry, within an operation of the caller.
func (d *Dir) applyTo(name string, n *tree.Node, what ApplyOptions) []Problem {
	e, err := d.pin(name, n.Type)
	if err != nil {
		return []Problem{{What: "metadata", Err: err}}
	}
	defer e.Close()
	return e.object.apply(n, what)
}

// SetMeta is Apply for the open file. Later writes would change the times again.
func (w *Writer) SetMeta(n *tree.Node, what ApplyOptions) []Problem {
	o := object{fd: w.fd, host: w.host}
	return w.ioctx.setAll("metadata", func() []Problem { return o.apply(n, what) })
}

// setAll sets properties of one object as one operation. what names them if the operation is not admitted.
func (d *IOContext) setAll(what string, call func() []Problem) []Problem {
	grant, err := d.begin(iopolicy.Metadata, 0)
	if err != nil {
		return []Problem{{What: what, Err: err}}
	}
	defer grant.End(0)
	return call()
}

// Prepare sets the flags of n that must precede the first byte, as no-copy-on-write and compression. SetMeta reports
// the failures again.
func (w *Writer) Prepare(n *tree.Node) []Problem {
	return w.ioctx.setAll("flags", func() []Problem { return prepare(w.fd, n) })
}

// Prepare sets the flags of n that must precede the first entry of a directory, as case folding.
func (d *Dir) Prepare(n *tree.Node) []Problem {
	return d.ioctx.setAll("flags", func() []Problem { return prepare(d.fd, n) })
}

// Unprotect clears what prevents a change or the removal of the entry name: the flags immutable and append-only and, on
// macOS, undeletable, and the access control list there.
func (d *Dir) Unprotect(name string) error {
	if err := checkNameOrSelf(name); err != nil {
		return wrap("unprotect", name, err)
	}
	if name == "." {
		return d.Self().Unprotect()
	}
	return wrap("unprotect", name, d.ioctx.do(iopolicy.Metadata, func() error {
		e, err := d.pin(name, tree.File)
		if err != nil {
			return err
		}
		defer e.Close()
		return e.object.unprotect()
	}))
}

type problems []Problem

func (p *problems) add(what string, err error) {
	if err != nil {
		*p = append(*p, Problem{What: what, Err: err})
	}
}

func (p problems) has(what string) bool {
	return slices.ContainsFunc(p, func(q Problem) bool { return q.What == what })
}

func (o *object) apply(n *tree.Node, what ApplyOptions) []Problem {
	var ps problems
	var st Stat
	if err := o.stat(&st); err != nil {
		return []Problem{{What: "metadata", Err: err}}
	}
	if st.Type != n.Type {
		err := fmt.Errorf("the target is no longer of the type it was made: %w", ErrVanished)
		return []Problem{{What: "metadata", Err: err}}
	}
	setFlags := func() error { return nil }
	if !what.SkipFlags {
		setFlags = o.flagsLater(n, what) // before the mode denies opening it
	}
	if !what.SkipOwner {
		ps.add("owner", o.setOwner(n.UID, n.GID))
	}
	if !what.SkipXattrs && !what.onlyACLs {
		o.setXattrs(n, what, false, &ps)
	}
	if !what.SkipMode {
		ps.add("mode", o.setMode(n, ps.has("owner")))
	}
	if !what.SkipXattrs && !what.skipACLs {
		o.setXattrs(n, what, true, &ps)
	}
	if !what.SkipTimes {
		ps.add("times", o.setTimes(n))
	}
	o.verify(n, what, &ps)
	ps.add("flags", setFlags())
	return ps
}

// setOwner sets owner and group, or the group alone where changing the owner is not permitted.
func (o *object) setOwner(uid, gid uint32) error {
	err := o.chown(int(uid), int(gid))
	if err == nil {
		return nil
	}
	var st Stat
	if o.stat(&st) == nil && st.UID == uid && st.GID == gid {
		return nil // a file system with fixed owners, and these are the right ones
	}
	if o.chown(-1, int(gid)) == nil {
		return fmt.Errorf("set owner %d: %w", uid, err)
	}
	return fmt.Errorf("set owner %d and group %d: %w", uid, gid, err)
}

// setMode sets the permission bits. If the owner could not be set, setuid and setgid would grant the rights of another
// user; they are omitted and reported.
func (o *object) setMode(n *tree.Node, ownerFailed bool) error {
	if n.Type == tree.Symlink && !symlinksHaveModes {
		return nil
	}
	mode := n.Mode & 0o7777
	if ownerFailed && mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		var st Stat
		if err := o.stat(&st); err != nil {
			return err
		}
		if st.UID != n.UID {
			mode &^= unix.S_ISUID
		}
		if st.GID != n.GID {
			mode &^= unix.S_ISGID
		}
	}
	if err := o.chmod(mode); err != nil {
		return fmt.Errorf("set mode %04o: %w", mode, err)
	}
	if mode != n.Mode&0o7777 {
		return fmt.Errorf("set mode %04o instead of %04o, as the owner is another: %w", mode, n.Mode, ErrNotKept)
	}
	return nil
}

// setXattrs sets the ACLs (acls set) or the other extended attributes of n, and removes those that n does not have.
func (o *object) setXattrs(n *tree.Node, what ApplyOptions, acls bool, ps *problems) {
	for _, x := range n.Xattrs {
		if isACL(x.Name) != acls || !Settable(x.Name) {
			continue
		}
		err := o.setXattr(x.Name, x.Value)
		if errors.Is(err, unix.EACCES) && !what.SkipMode && n.Type != tree.Symlink && o.chmod(0o700) == nil {
			err = o.setXattr(x.Name, x.Value) // the existing file was read-only; its mode is set next
		}
		ps.add("xattr "+x.Name, err)
	}
	names, err := o.xattrNames()
	if err != nil {
		if !Unsupported(err) {
			ps.add("xattrs", fmt.Errorf("list those there already: %w", err))
		}
		return
	}
	for _, name := range names {
		known := func(x tree.Xattr) bool { return x.Name == name }
		if isACL(name) != acls || !Removable(name) || slices.ContainsFunc(n.Xattrs, known) {
			continue
		}
		if err := o.removeXattr(name); err != nil && !errors.Is(err, noXattr) {
			ps.add("xattr "+name, fmt.Errorf("remove: %w", err))
		}
	}
}

// verify compares the result with n, since some file systems accept everything and store less.
func (o *object) verify(n *tree.Node, what ApplyOptions, ps *problems) {
	var st Stat
	if err := o.stat(&st); err != nil {
		ps.add("metadata", err)
		return
	}
	o.compare(n, &what, &st, ps)
}

// compare reports metadata that was set without an error and differs in st.
func (o *object) compare(n *tree.Node, what *ApplyOptions, st *Stat, ps *problems) {
	if !what.SkipOwner && !ps.has("owner") && (st.UID != n.UID || st.GID != n.GID) {
		ps.add("owner", fmt.Errorf("is %d:%d instead of %d:%d: %w", st.UID, st.GID, n.UID, n.GID, ErrNotKept))
	}
	modeCounts := n.Type != tree.Symlink || symlinksHaveModes
	if !what.SkipMode && modeCounts && !ps.has("mode") && st.Mode != n.Mode&0o7777 {
		ps.add("mode", fmt.Errorf("is %04o instead of %04o: %w", st.Mode, n.Mode, ErrNotKept))
	}
	if !what.SkipTimes && !ps.has("times") && st.Mtime != n.ModTime {
		ps.add("times", fmt.Errorf("modification time is %d.%09d instead of %d.%09d: %w",
			st.Mtime.Sec, st.Mtime.Nsec, n.ModTime.Sec, n.ModTime.Nsec, ErrNotKept))
	}
}
