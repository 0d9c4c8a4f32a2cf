// Package localfs is the door through which the program touches the file systems it protects and restores to. It offers
// open directories, and everything else relative to one: no function takes a path but OpenDir and OpenWay, so nobody
// can swap a parent directory for a symbolic link under our feet, and paths longer than the kernel takes are no special
// case.
//
// Below these no symbolic link is followed, no special file is opened for its data, every raw call is repeated after
// EINTR, and entries are byte strings. On the restore side, what cannot be set on an object is a Problem, not an error.
// Linux and macOS are supported, with one file per system where they differ; docs/metadata.md says what each keeps.
//
// The package refuses to know: which files are wanted (rules), how they are kept (pkg/format), in which order
// directories are walked (scan), and what is done about a failure. It starts no goroutine of its own on Linux.
package localfs

import (
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Stat is what the file system tells about one object.
type Stat struct {
	Type      tree.Type // 0 for something that has no node type (a whiteout, a door)
	Mode      uint32    // permission bits with setuid, setgid and sticky: 12 bits
	UID, GID  uint32
	Ino       uint64
	Dev       uint64 // of the file system: major<<32 | minor
	Links     uint64
	Size      uint64 // bytes
	Blocks512 uint64 // allocated, in units of 512 bytes
	Rdev      uint64 // of a device node: major<<32 | minor
	Mtime     tree.Time
	Ctime     tree.Time
	Atime     tree.Time
	Birth     tree.Time // Sec is UnknownTime where the file system does not tell
	Attr      uint64    // Attr... bits; only hints, Flags tells all
	MountID   uint64    // of the mount the object was reached through; 0 where the kernel does not tell
}

// UnknownTime is the Sec of a Birth that the file system does not tell.
const UnknownTime = math.MinInt64

// Bits of Stat.Attr, those of Linux' statx; macOS' st_flags are translated.
const (
	AttrCompressed = 0x4
	AttrImmutable  = 0x10
	AttrAppend     = 0x20
	AttrNoDump     = 0x40
	AttrEncrypted  = 0x800
	AttrMountRoot  = 0x2000
	AttrVerity     = 0x100000
	AttrDataless   = 1 << 63 // macOS: the content is in the cloud, reading it fetches it
)

// retry repeats a call that a signal interrupted before it did anything. Not for close: on Linux the descriptor is gone
// also when close reports EINTR, and a second close could hit somebody else's.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// checkName refuses what would not be an entry of the directory itself. Names may come from a damaged or hostile
// repository, so this is what keeps a restore inside its target.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0 {
		return ErrBadName
	}
	return nil
}

// checkNameOrSelf also takes ".", the directory itself.
func checkNameOrSelf(name string) error {
	if name == "." {
		return nil
	}
	return checkName(name)
}

// typeOfMode translates the format bits of st_mode.
func typeOfMode(mode uint32) tree.Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return tree.File
	case unix.S_IFDIR:
		return tree.Dir
	case unix.S_IFLNK:
		return tree.Symlink
	case unix.S_IFIFO:
		return tree.Fifo
	case unix.S_IFSOCK:
		return tree.Socket
	case unix.S_IFCHR:
		return tree.CharDevice
	case unix.S_IFBLK:
		return tree.BlockDevice
	}
	return 0
}

// device packs the two halves of a device number the way nodes keep it.
func device(major, minor uint32) uint64 { return uint64(major)<<32 | uint64(minor) }
