package localfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// birthOf returns the birth time. XNU returns zero if the file system has none (vn_stat_noauth of vfs_vnops.c).
func birthOf(sec, nsec int64) tree.Time {
	if sec == 0 && nsec == 0 {
		return tree.Time{Sec: UnknownTime}
	}
	return tree.Time{Sec: sec, Nsec: uint32(nsec)}
}

// Flags of a status, st_flags of sys/stat.h: those of the owner and those of root.
const (
	macSettable   = 0x0000ffff // UF_SETTABLE: all of the owner
	macNoDump     = 0x00000001 // UF_NODUMP
	macImmutable  = 0x00000002 // UF_IMMUTABLE
	macAppend     = 0x00000004 // UF_APPEND
	macOpaque     = 0x00000008 // UF_OPAQUE
	macCompressed = 0x00000020 // UF_COMPRESSED
	macHidden     = 0x00008000 // UF_HIDDEN
	macArchived   = 0x00010000 // SF_ARCHIVED
	macFixed      = 0x00020000 // SF_IMMUTABLE
	macGrowing    = 0x00040000 // SF_APPEND
	macNoUnlink   = 0x00100000 // SF_NOUNLINK
	macDataless   = 0x40000000 // SF_DATALESS
)

// attrsOfMac returns the attributes of a status with these flags.
func attrsOfMac(flags uint32) (attrs uint64) {
	for _, pair := range [...]struct {
		flags uint32
		attr  uint64
	}{
		{macImmutable | macFixed, AttrImmutable},
		{macAppend | macGrowing, AttrAppend},
		{macNoDump, AttrNoDump},
		{macCompressed, AttrCompressed},
		{macDataless, AttrDataless},
	} {
		if flags&pair.flags != 0 {
			attrs |= pair.attr
		}
	}
	return attrs
}

// mayOpen reports whether opening an object by its name for its attributes has no side effect on macOS. Opening a
// device has one, a dataless object is fetched, a fifo wakes its writer, and a socket cannot be opened.
func mayOpen(st *Stat) bool {
	switch st.Type {
	case tree.File, tree.Dir, tree.Symlink:
		return st.Attr&AttrDataless == 0
	}
	return false
}

// mayRead returns why a file is not opened for its content, if it is not.
func mayRead(st *Stat) error {
	switch {
	case st.Type != tree.File:
		return ErrNotRegular
	case st.Attr&AttrDataless != 0:
		return ErrDataless
	}
	return nil
}

// openErrorOfMac adds what the error of an open means. A file that became dataless after its status was read is EDEADLK
// (vfs_context_dataless_materialization_is_prevented of vfs_syscalls.c).
func openErrorOfMac(err error) error {
	if errors.Is(err, unix.EDEADLK) {
		return fmt.Errorf("%w (%w)", ErrDataless, err)
	}
	return err
}

// ownedBySystem reports whether macOS sets an extended attribute by itself, and lets no program set or remove it.
func ownedBySystem(name string) bool {
	return name == "com.apple.provenance" || name == "com.apple.macl" || name == "com.apple.rootless"
}

// macHasXattrs reports whether macOS gives objects of a type extended attributes: not devices, for which listxattr is
// EPERM (XATTR_VNODE_SUPPORTED of sys/xattr.h).
func macHasXattrs(typ tree.Type) bool { return typ != tree.CharDevice && typ != tree.BlockDevice }

// Flags of statfs, MNT of sys/mount.h.
const (
	macReadOnly   = 0x00000001 // MNT_RDONLY
	macLocal      = 0x00001000 // MNT_LOCAL
	macDontBrowse = 0x00100000 // MNT_DONTBROWSE
)

// setMacFlags completes m by the flags of statfs. The volumes of the system are hidden. The one with the user's data is
// too, and appears at the root.
func (m *Mount) setMacFlags(flags uint32) {
	m.classify()
	m.ReadOnly = flags&macReadOnly != 0
	m.Local = m.Local && flags&macLocal != 0 && flags&macDontBrowse == 0
}

// setMacFlags completes info by the flags of statfs.
func (info *FSInfo) setMacFlags(flags uint32) {
	info.classify()
	info.ReadOnly = flags&macReadOnly != 0
	if flags&macLocal == 0 {
		info.Remote = !info.Pseudo
	}
}
