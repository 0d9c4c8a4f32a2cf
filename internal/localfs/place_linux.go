package localfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// placed reports whether the file system of f is not known to tell no places.
func (f *File) placed() bool { return f.host.unplaced.Load() != 1+f.opened.Dev }

// place returns where the first extent of a file of size bytes begins on its device, in bytes; 0: it has none that has a
// place, or that cannot be found out. ok is false if the file system tells no places at all, which is remembered.
//
// What is dirty in memory is not written for it. The kernel answers this request itself and hands it to no driver, so a
// device in the place of a presumed file takes no notice.
func (f *File) place(size uint64) (at uint64, ok bool) {
	m := fiemap{length: size, room: 1}
	errno := unix.EINTR
	for errno == unix.EINTR {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), requestFiemap, uintptr(unsafe.Pointer(&m)))
	}
	switch {
	case errno == unix.EOPNOTSUPP, errno == unix.ENOTTY, errno == unix.ENOSYS:
		if f.Confirm() != nil { // it is the word of something else
			return 0, true
		}
		f.host.unplaced.Store(1 + f.opened.Dev)
		return 0, false
	case errno != 0, m.mapped == 0, m.extentFlags&extentNowhere != 0:
		return 0, true
	}
	return m.physical, true
}
