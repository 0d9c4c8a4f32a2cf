package localfs

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of linux/magic.h: file systems whose direct reads are known to bypass the cache.
const (
	magicExt4 = 0xef53
	magicXFS  = 0x58465342
)

// supportsDirect queries the file system of fd. Since Linux 6.1 statx returns the alignment of direct reads, or zero.
func supportsDirect(fd int) bool {
	var fs unix.Statfs_t
	if retry(func() error { return unix.Fstatfs(fd, &fs) }) != nil || fs.Type != magicExt4 && fs.Type != magicXFS {
		return false
	}
	var sx unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &sx) })
	if err != nil || sx.Mask&unix.STATX_DIOALIGN == 0 {
		return false
	}
	fits := func(align uint32) bool { return align > 0 && directUnit%align == 0 }
	return fits(sx.Dio_mem_align) && fits(sx.Dio_offset_align)
}

func isInvalid(err error) bool { return errors.Is(err, unix.EINVAL) }

// setDirectFlag switches direct reads of fd. F_SETFL replaces all flags, so O_NOATIME and O_NONBLOCK are repeated; if
// the file is not ours, EPERM, and nothing changes.
func setDirectFlag(fd int, on bool) error {
	flags := unix.O_NONBLOCK | unix.O_NOATIME
	if on {
		flags |= unix.O_DIRECT
	}
	err := retry(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
		return err
	})
	if err != nil {
		return fmt.Errorf("switch direct reads: %w", err)
	}
	return nil
}

// preadFlags is preadv2 at the beginning of a file with RWF_ flags; p is not empty.
func preadFlags(fd int, p []byte, flags uint32) (int, unix.Errno) {
	part := unix.Iovec{Base: &p[0]}
	part.SetLen(len(p))
	n, errno := uninterrupted(func() (uintptr, uintptr, unix.Errno) {
		return unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&part)), 1, 0, 0, uintptr(flags))
	})
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// allocPages returns page-aligned memory, or nil.
func allocPages() []byte {
	room, err := unix.Mmap(-1, 0, directBufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	return room
}

func freePages(room []byte) error {
	if room == nil {
		return nil
	}
	if err := unix.Munmap(room); err != nil {
		return fmt.Errorf("give memory back: %w", err)
	}
	return nil
}

// Numbers of linux/fiemap.h and linux/fs.h, which the library does not name. The request is the same on all
// architectures.
const (
	requestFiemap = 0xc020660b

	extentUnknown   = 0x002 // not allocated yet
	extentUnaligned = 0x100 // shares its block
	extentInline    = 0x200 // inside the inode
	extentNowhere   = extentUnknown | extentUnaligned | extentInline
)

// fiemap is struct fiemap with one struct fiemap_extent.
type fiemap struct {
	start, length                uint64
	flags, mapped, room, _       uint32
	logical, physical, extentLen uint64
	_                            [2]uint64
	extentFlags                  uint32
	_                            [3]uint32
}

// firstExtent returns the position of the first extent of fd on its device, in bytes, or 0 if it has none. ok is false
// if the file system does not report positions. Dirty pages are not written for it.
func firstExtent(fd int, size uint64) (at uint64, ok bool) {
	m := fiemap{length: size, room: 1}
	_, errno := uninterrupted(func() (uintptr, uintptr, unix.Errno) {
		return unix.Syscall(unix.SYS_IOCTL, uintptr(fd), requestFiemap, uintptr(unsafe.Pointer(&m)))
	})
	switch {
	case errno == unix.EOPNOTSUPP, errno == unix.ENOTTY, errno == unix.ENOSYS:
		return 0, false
	case errno != 0, m.mapped == 0, m.extentFlags&extentNowhere != 0:
		return 0, true
	}
	return m.physical, true
}
