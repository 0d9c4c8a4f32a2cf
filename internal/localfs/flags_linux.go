package localfs

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Inode flags of FS_IOC_GETFLAGS (linux/fs.h), which the library does not name.
const (
	flagSecureDelete = 0x00000001
	flagUndelete     = 0x00000002
	flagCompress     = 0x00000004
	flagSync         = 0x00000008
	flagImmutable    = 0x00000010
	flagAppend       = 0x00000020
	flagNoDump       = 0x00000040
	flagNoAtime      = 0x00000080
	flagNoCompress   = 0x00000400
	flagJournalData  = 0x00004000
	flagNoTail       = 0x00008000
	flagDirSync      = 0x00010000
	flagTopDir       = 0x00020000
	flagNoCow        = 0x00800000
	flagDax          = 0x02000000
	flagProjInherit  = 0x20000000
	flagCaseFold     = 0x40000000

	protectFlags = flagImmutable | flagAppend
	// Flags that must be set before the content.
	beforeContent = flagCompress | flagNoCompress | flagNoCow | flagDax | flagCaseFold
	keptFlags     = beforeContent | protectFlags | flagSecureDelete | flagUndelete | flagSync | flagNoDump | flagNoAtime |
		flagJournalData | flagNoTail | flagDirSync | flagTopDir | flagProjInherit
)

// Flags returns the inode flags of the entry name, or of the directory if name is ".", that chattr can set. The others
// (extents, inline data, encrypted, verity, ...) describe how the file system stores the object. Only files and
// directories have flags.
func (d *Dir) Flags(name string, typ tree.Type) (uint64, error) {
	if err := checkNameOrSelf(name); err != nil {
		return 0, wrap("read flags of", name, err)
	}
	if name == "." {
		return d.ioctx.readFlags(&object{fd: d.fd}, name)
	}
	switch typ {
	case tree.Dir:
		child, err := d.Open(name)
		if err != nil {
			return 0, err
		}
		defer child.Release()
		return d.ioctx.readFlags(&object{fd: child.fd}, name)
	case tree.File:
		f, err := d.OpenFile(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return d.ioctx.readFlags(&object{fd: f.fd}, name)
	}
	return 0, nil
}

// kept returns the flags of an open file or directory that are kept.
func (o *object) kept() (uint64, error) {
	flags, err := getFlags(o.fd)
	if noFlags(err) {
		return 0, nil
	}
	return uint64(flags & keptFlags), err
}

// noFlags reports whether err says that the file system has no inode flags.
func noFlags(err error) bool {
	return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) ||
		errors.Is(err, unix.EINVAL)
}

// getFlags reads all flags. The call carries an int, but some FUSE file systems write a long.
func getFlags(fd int) (uint32, error) {
	var flags [2]uint32
	err := ioctl(fd, unix.FS_IOC_GETFLAGS, &flags)
	return flags[0], err
}

func ioctl(fd int, request uintptr, flags *[2]uint32) error {
	return retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(flags)))
		return errnoOrNil(errno)
	})
}

// changeFlags sets the flags in mask to those of want. It does not clear flags of beforeContent that the target's
// policy set, as a directory without copy-on-write does. A file system refuses all flags for an unknown one, so after a
// failure each is set alone, and the error names those that could not be changed.
func changeFlags(fd int, want, mask uint32) error {
	have, err := getFlags(fd)
	if err != nil {
		if noFlags(err) {
			if want&mask == 0 {
				return nil
			}
			return fmt.Errorf("flags %#x: %w (%w)", want&mask, ErrNotKept, err)
		}
		return err
	}
	next := have&^(mask&^beforeContent) | want&mask
	if next == have {
		return nil
	}
	set := func(flags uint32) error { return ioctl(fd, unix.FS_IOC_SETFLAGS, &[2]uint32{flags}) }
	if err = set(next); err != nil {
		err = changeEach(have, next, set, err)
	}
	// Also after success: btrfs accepts and ignores a flag that comes too late.
	now, again := getFlags(fd)
	if again != nil {
		return again
	}
	if refused := (now ^ next) & mask; refused != 0 {
		if err == nil {
			err = ErrNotKept
		}
		return fmt.Errorf("flags %#x: %w", refused, err)
	}
	return nil
}

// changeEach changes one flag at a time, and returns the last refusal, or err if there was none. Protecting flags are
// cleared first and set last, since they prevent the other changes.
func changeEach(have, next uint32, set func(uint32) error, err error) error {
	differ := have ^ next
	for _, group := range [...]uint32{differ & have & protectFlags, differ &^ protectFlags, differ & next & protectFlags} {
		for bit := uint32(1); bit != 0; bit <<= 1 {
			if group&bit == 0 {
				continue
			}
			if refused := set(have ^ bit); refused != nil {
				err = refused
				continue
			}
			have ^= bit
		}
	}
	return err
}
