// Package localfs accesses the file systems that are backed up and restored to. Everything is opened relative to an
// open directory: only OpenDir and OpenSearchable take a path. Swapping a parent directory for a symbolic link
// therefore has no effect, and paths may be longer than the kernel's limit.
//
// No symbolic link is followed below these directories, and no special file is opened for its data. Names are byte
// strings. On the restore side, metadata that cannot be set is a Problem, not an error. docs/metadata.md lists what is
// kept on Linux and macOS.
//
//	open, list   dir.go, open_linux.go, nodev_linux.go, sys_*.go, statbatch.go
//	read         file.go, batch.go, content.go, known.go, direct.go, cache.go, resident.go, position.go; ring: io_uring
//	metadata     xattr.go, flags_linux.go, fsinfo.go
//	restore      write.go, make.go, apply.go, entry.go
package localfs

import (
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Stat is the status of one object.
type Stat struct {
	Type      tree.Type // 0 for types that no node has (a whiteout, a door)
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
	Birth     tree.Time // Sec is UnknownTime if the file system has none
	Attr      uint64    // Attr... bits; a subset of Flags
	MountID   uint64    // 0: unknown
}

// Unchanged reports whether this is the status of the regular file that n describes, unchanged since.
func (st *Stat) Unchanged(n *tree.Node) bool {
	return st.Type == tree.File && st.Size == n.Size && st.Mtime == n.ModTime && st.Ctime == n.Changed &&
		(n.Inode == 0 || st.Ino == n.Inode)
}

// UnknownTime is the Sec of an unknown Birth.
const UnknownTime = math.MinInt64

// Bits of Stat.Attr, from statx of Linux; st_flags of macOS are translated.
const (
	AttrCompressed = 0x4
	AttrImmutable  = 0x10
	AttrAppend     = 0x20
	AttrNoDump     = 0x40
	AttrEncrypted  = 0x800
	AttrMountRoot  = 0x2000
	AttrDataless   = 1 << 63 // macOS: reading the content fetches it from the cloud
)

// retry repeats a call that a signal interrupted. It is not for close: on Linux EINTR of close has freed the
// descriptor, which another file may have by then.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// uninterrupted is retry for system calls without a wrapper, or whose wrapper copies a name to the heap.
func uninterrupted(call func() (result, _ uintptr, errno unix.Errno)) (uintptr, unix.Errno) {
	for {
		if r, _, errno := call(); errno != unix.EINTR {
			return r, errno
		}
	}
}

// checkName accepts only entries of the directory itself. Names may come from a hostile repository, so this check
// confines a restore to its target.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0 {
		return ErrBadName
	}
	return nil
}

// checkNameOrSelf also accepts ".", the directory itself.
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

// device packs a device number as nodes store it.
func device(major, minor uint32) uint64 { return uint64(major)<<32 | uint64(minor) }

// minOpenFiles is available on every system.
const minOpenFiles = 256

// MaxOpenFiles returns how many descriptors this process may have.
func MaxOpenFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return minOpenFiles
	}
	return int(min(limit.Cur, 1<<20))
}
