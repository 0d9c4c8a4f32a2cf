package localfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hasPositions reports whether the file system may report positions.
func (f *File) hasPositions() bool { return f.host.noPositions.Load() != 1+f.opened.Dev }

// position returns firstExtent, and records if the file system does not report positions.
func (f *File) position(size uint64) (at uint64, ok bool) {
	if at, ok = firstExtent(f.fd, size); ok {
		return at, true
	}
	f.host.noPositions.Store(1 + f.opened.Dev)
	return 0, false
}

// HolesAreTrue is whether holes that a file system reports are believed.
const HolesAreTrue = true

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
