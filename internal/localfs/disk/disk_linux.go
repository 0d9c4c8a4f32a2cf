package disk

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of linux/magic.h: on these file systems a direct read is known to be what it says.
const (
	magicExt4 = 0xef53
	magicXFS  = 0x58465342
)

// direct asks the file system of fd. Which alignment direct reads need there it tells since Linux 6.1, with a zero where
// there are none.
func direct(fd int) bool {
	var fs unix.Statfs_t
	if again(func() error { return unix.Fstatfs(fd, &fs) }) != nil || fs.Type != magicExt4 && fs.Type != magicXFS {
		return false
	}
	var sx unix.Statx_t
	err := again(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &sx) })
	if err != nil || sx.Mask&unix.STATX_DIOALIGN == 0 {
		return false
	}
	fits := func(align uint32) bool { return align > 0 && Unit%align == 0 }
	return fits(sx.Dio_mem_align) && fits(sx.Dio_offset_align)
}

func invalid(err error) bool { return errors.Is(err, unix.EINVAL) }

// Direct makes all reads of fd direct, or none. That the access time stays as it is, and that what is no regular file is
// not waited for, is said once more, or the kernel would forget it: EPERM, and nothing changes, where the first is not for
// us to say.
func Direct(fd int, on bool) error {
	flags := unix.O_NONBLOCK | unix.O_NOATIME
	if on {
		flags |= unix.O_DIRECT
	}
	err := again(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
		return err
	})
	if err != nil {
		return fmt.Errorf("switch direct reads: %w", err)
	}
	return nil
}

// ReadStart is preadv2 at the beginning of a file with some RWF_ flags, again after EINTR; p is not empty.
func ReadStart(fd int, p []byte, flags uint32) (int, unix.Errno) {
	part := unix.Iovec{Base: &p[0]}
	part.SetLen(len(p))
	for {
		n, _, errno := unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&part)), 1, 0, 0, uintptr(flags))
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// get returns memory that begins with a page; nil: there is none.
func get() []byte {
	room, err := unix.Mmap(-1, 0, Room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	return room
}

func release(room []byte) error {
	if room == nil {
		return nil
	}
	if err := unix.Munmap(room); err != nil {
		return fmt.Errorf("give memory back: %w", err)
	}
	return nil
}

// again repeats a call after EINTR.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Numbers of linux/fiemap.h and linux/fs.h; the library does not name them. The request is the same number on every
// architecture.
const (
	requestFiemap = 0xc020660b

	extentUnknown   = 0x002 // has no place yet
	extentUnaligned = 0x100 // shares its block with something else
	extentInline    = 0x200 // is inside the inode
	extentNowhere   = extentUnknown | extentUnaligned | extentInline
)

// fiemap is struct fiemap with room for one struct fiemap_extent.
type fiemap struct {
	start, length                uint64
	flags, mapped, room, _       uint32
	logical, physical, extentLen uint64
	_                            [2]uint64
	extentFlags                  uint32
	_                            [3]uint32
}

// Place returns where the first extent of the first size bytes of fd begins on its device, in bytes; 0: it has none that
// has a place, or that cannot be found out. ok is false if the file system tells no places at all. What is dirty in memory
// is not written for it.
func Place(fd int, size uint64) (at uint64, ok bool) {
	m := fiemap{length: size, room: 1}
	errno := unix.EINTR
	for errno == unix.EINTR {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), requestFiemap, uintptr(unsafe.Pointer(&m)))
	}
	switch {
	case errno == unix.EOPNOTSUPP, errno == unix.ENOTTY, errno == unix.ENOSYS:
		return 0, false
	case errno != 0, m.mapped == 0, m.extentFlags&extentNowhere != 0:
		return 0, true
	}
	return m.physical, true
}
