package localfs

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// uncached returns the flags for a read that uses cached pages and leaves no new ones (Linux 6.14). It is for whole
// files, since pages are dropped even if only a part of them was read. 0: not supported; use NoteCache and DropCache.
func (f *File) uncached(whole bool) uint32 {
	if !whole || f.host.noUncached.Load() == 1+f.opened.Dev {
		return 0
	}
	return unix.RWF_DONTCACHE
}

// readUncached reads with the flags of uncached; false: the file system does not support them.
func (f *File) readUncached(p []byte, flags uint32) (n int, err error, ok bool) {
	n, errno := preadFlags(f.fd, p, flags)
	if f.noteRefused(errno) {
		return 0, nil, false
	}
	if errno != 0 {
		return 0, errno, true
	}
	return n, nil, true
}

// noteRefused reports whether an error means that the flags of uncached are not supported, and records it.
func (f *File) noteRefused(err error) bool {
	if err != unix.EOPNOTSUPP && err != unix.ENOSYS {
		return false
	}
	f.host.noUncached.Store(1 + f.opened.Dev)
	return true
}

// canWait reports whether reads of f can run asynchronously. Otherwise io_uring would use kernel threads, which cost
// more than they gain, and whose I/O is not accounted to our thread. Each file system is probed once.
func (f *File) canWait() bool {
	dev := 1 + f.opened.Dev
	if f.host.nonBlocking.Load() == dev {
		return true
	}
	if f.host.blocking.Load() == dev || f.opened.Size == 0 {
		return false
	}
	grant, err := f.ioctx.begin(iopolicy.Read, 1)
	if err != nil {
		return false
	}
	n, errno := f.readNow()
	grant.End(n)
	switch errno {
	case 0, unix.EAGAIN:
		f.host.nonBlocking.Store(dev)
		return true
	default:
		f.host.blocking.Store(dev)
		return false
	}
}

// readNow reads a byte if it is cached. If not, the kernel may start to fetch the page, so readNow tries to leave no
// new page.
func (f *File) readNow() (int, unix.Errno) {
	var p [1]byte
	if flags := f.uncached(true); flags != 0 {
		n, errno := preadFlags(f.fd, p[:], unix.RWF_NOWAIT|flags)
		if errno != unix.EOPNOTSUPP {
			return n, errno
		}
	}
	return preadFlags(f.fd, p[:], unix.RWF_NOWAIT)
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
