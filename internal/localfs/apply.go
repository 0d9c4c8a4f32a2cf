package localfs

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// ApplyOptions leaves parts of the metadata out. The zero value sets everything that the node holds.
type ApplyOptions struct {
	SkipOwner    bool
	SkipMode     bool
	SkipXattrs   bool // ACLs too
	SkipTimes    bool
	SkipFlags    bool
	ForeignFlags bool // the node comes from another platform, whose flags mean something else here
}

// object is one file-system object whose metadata is asked or set: an open file or directory (name empty), or the entry
// name of an open directory (which may be "."), itself and not what it points to.
type object struct {
	fd   int
	name string
	host *host
}

func (d *Dir) object(name string) *object { return &object{fd: d.fd, name: name, host: d.host} }

// Apply sets the metadata of n on the entry name (on the directory itself, when name is "."), which must be of n's type.
// A directory comes after its children, which change its times, and which a read-only mode or flag would lock out. What
// cannot be set, or is not kept as it was set, is told in the result; the rest is set nevertheless.
//
// The order matters. Owner first, since a change of owner clears setuid, setgid and capabilities. Then the attributes a
// file's owner may only set while the file is writable, then the mode, then the ACLs, which refine it. Then times, and
// last the flags, since an immutable object takes nothing more.
func (d *Dir) Apply(name string, n *tree.Node, what ApplyOptions) []Problem {
	if err := checkNameOrSelf(name); err != nil {
		return []Problem{{What: "name", Err: failed("set metadata of", name, err)}}
	}
	if name == "." {
		name = "" // by its descriptor: once the mode is set, we may not be allowed to look up anything in it
	}
	return d.door.setAll(d.object(name), n, what)
}

// SetMeta is Apply on the open file. Call it after the last write, which would change the times again.
func (w *Writer) SetMeta(n *tree.Node, what ApplyOptions) []Problem {
	return w.door.setAll(&object{fd: w.fd, host: w.host}, n, what)
}

// setAll sets all metadata of one object as one operation.
func (d *Door) setAll(o *object, n *tree.Node, what ApplyOptions) []Problem {
	grant, err := d.begin(iopolicy.Metadata, 0)
	if err != nil {
		return []Problem{{What: "metadata", Err: err}}
	}
	defer grant.End(0)
	return o.apply(n, what)
}

// Prepare sets those flags of n that must be there before the first byte, as no-copy-on-write and compression. Call it
// on a new file if n has flags of this platform; failures are told again by SetMeta.
func (w *Writer) Prepare(n *tree.Node) []Problem { return w.door.prepareOpen(w.fd, n) }

// Prepare sets those flags of n that must be on a directory before its first entry, as case folding.
func (d *Dir) Prepare(n *tree.Node) []Problem { return d.door.prepareOpen(d.fd, n) }

func (d *Door) prepareOpen(fd int, n *tree.Node) []Problem {
	grant, err := d.begin(iopolicy.Metadata, 0)
	if err != nil {
		return []Problem{{What: "flags", Err: err}}
	}
	defer grant.End(0)
	return prepare(fd, n)
}

// Unprotect takes the flags off the entry name that would keep it from being changed or removed: immutable, append-only
// and, on macOS, undeletable. For a target that the user asked to overwrite.
func (d *Dir) Unprotect(name string) error {
	if err := checkNameOrSelf(name); err != nil {
		return failed("unprotect", name, err)
	}
	if err := d.door.once(iopolicy.Metadata, d.object(name).unprotect); err != nil {
		return failed("unprotect", name, err)
	}
	return nil
}

// problems collects what could not be set.
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
	flags := flagTarget{fd: -1}
	if !what.SkipFlags {
		flags = o.openFlags(n, what) // before the mode takes the right to open it
		defer flags.close()
	}
	if !what.SkipOwner {
		ps.add("owner", o.setOwner(n.UID, n.GID))
	}
	if !what.SkipXattrs {
		o.setXattrs(n, what, false, &ps)
	}
	if !what.SkipMode {
		ps.add("mode", o.setMode(n, ps.has("owner")))
	}
	if !what.SkipXattrs {
		o.setXattrs(n, what, true, &ps)
	}
	if !what.SkipTimes {
		ps.add("times", o.setTimes(n))
	}
	o.verify(n, what, &ps)
	if !what.SkipFlags {
		ps.add("flags", flags.set())
	}
	return ps
}

// setOwner sets both IDs, or, where we may not give files away, the group alone.
func (o *object) setOwner(uid, gid uint32) error {
	err := o.chown(int(uid), int(gid))
	if err == nil {
		return nil
	}
	var st Stat
	if o.stat(&st) == nil && st.UID == uid && st.GID == gid {
		return nil // a file system with fixed owners, and these are they
	}
	if o.chown(-1, int(gid)) == nil {
		return fmt.Errorf("set owner %d: %w", uid, err)
	}
	return fmt.Errorf("set owner %d and group %d: %w", uid, gid, err)
}

// setMode sets the permission bits. Where the owner could not be set, setuid and setgid would lend the rights of
// somebody else than the original did: they are left out and told.
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

// setXattrs makes the ACLs (acls set) or all other extended attributes of the object those of n: sets n's, and removes
// others, which a new object may have inherited and an existing one had before.
func (o *object) setXattrs(n *tree.Node, what ApplyOptions, acls bool, ps *problems) {
	for _, x := range n.Xattrs {
		if isACL(x.Name) != acls {
			continue
		}
		err := o.setXattr(x.Name, x.Value)
		if errors.Is(err, unix.EACCES) && !what.SkipMode && n.Type != tree.Symlink && o.chmod(0o700) == nil {
			err = o.setXattr(x.Name, x.Value) // an existing file that was read-only; its mode comes next
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

// verify looks once at what the file system made of it: there are those that take everything and keep less.
func (o *object) verify(n *tree.Node, what ApplyOptions, ps *problems) {
	var st Stat
	if err := o.stat(&st); err != nil {
		ps.add("metadata", err)
		return
	}
	o.compare(n, &what, &st, ps)
}

// compare tells what of the metadata that was set without a complaint is not there.
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
