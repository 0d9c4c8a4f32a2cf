package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/disk"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// past returns the flags for reading past the page cache: what is there is taken from there, and nothing stays that was
// not there (Linux 6.14). It is for reads of a whole file: pages go when the read ends, also if only a part of them was
// wanted. 0: it is not to be had, and the cache must be seen to.
func (f *File) past(whole bool) uint32 {
	if !whole || f.host.keeps.Load() == 1+f.opened.Dev {
		return 0
	}
	return unix.RWF_DONTCACHE
}

// readPast reads with the flags of past; false: this file system does not know them.
func (f *File) readPast(p []byte, flags uint32) (n int, err error, ok bool) {
	n, errno := disk.ReadStart(f.fd, p, flags)
	if f.refused(errno) {
		return 0, nil, false
	}
	if errno != 0 {
		return 0, errno, true
	}
	return n, nil, true
}

// guarded returns the flags for a read of a file that is presumed. What is no file of a file system knows no reading past
// the page cache, so that of a fifo that was put in the file's place not a byte is taken.
func (f *File) guarded(whole bool) uint32 {
	if f.presumed {
		return unix.RWF_DONTCACHE
	}
	return f.past(whole)
}

// refused reports whether an error says that the flags of past are not known here, and remembers it.
func (f *File) refused(err error) bool {
	if err != unix.EOPNOTSUPP && err != unix.ENOSYS {
		return false
	}
	f.host.keeps.Store(1 + f.opened.Dev)
	return true
}

// async reports whether a read of f can be under way while nobody waits for it. Where it cannot, the kernel would have
// threads of its own wait, which costs more than it gains, and whose I/O is not counted as that of the thread that asked.
// A file system is asked once.
func (f *File) async() bool {
	dev := 1 + f.opened.Dev
	if f.host.async.Load() == dev {
		return true
	}
	if f.host.waits.Load() == dev || f.opened.Size == 0 || f.Confirm() != nil {
		return false
	}
	grant, err := f.door.begin(iopolicy.Read, 1)
	if err != nil {
		return false
	}
	n, errno := f.tryNow()
	grant.End(n)
	switch errno {
	case 0, unix.EAGAIN:
		f.host.async.Store(dev)
		return true
	default:
		f.host.waits.Store(dev)
		return false
	}
}

// tryNow reads a byte if it is in memory. Where it is not, the kernel may begin to fetch it, so this leaves nothing behind
// either, if possible.
func (f *File) tryNow() (int, unix.Errno) {
	var p [1]byte
	if flags := f.past(true); flags != 0 {
		n, errno := disk.ReadStart(f.fd, p[:], unix.RWF_NOWAIT|flags)
		if errno != unix.EOPNOTSUPP {
			return n, errno
		}
	}
	return disk.ReadStart(f.fd, p[:], unix.RWF_NOWAIT)
}
