package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// resolveCached is RESOLVE_CACHED of linux/openat2.h (Linux 5.12).
const resolveCached = 0x20

// openCached is openKnown for a file whose name is in the kernel's cache of names: then its inode is in memory too. It
// returns -1 if it is not, and on any error. The file system must be one whose reads do not block: others may query a
// server or a program to open a file.
func (d *Dir) openCached(name string, known Known, st *Stat) (fd int) {
	if known.Ino == 0 || d.host.nonBlocking.Load() != 1+known.Dev {
		return -1
	}
	var err error
	if d.mayHoldDevices() {
		fd, err = d.noDev.openFile(&d.host.noDev, d.fd, name, resolveCached)
	} else {
		flags := openUnknown
		if !d.noAtime.Load() {
			flags |= unix.O_NOATIME
		}
		fd, err = openat2(d.fd, name, flags, resolveCached)
	}
	if err != nil {
		return -1
	}
	if fstat(fd, st) != nil || st.Type != tree.File || st.Dev != known.Dev || st.Ino != known.Ino {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// readCached fills p from off and reports whether cached pages sufficed. p is not empty.
func (f *File) readCached(p []byte, off int64) bool {
	n, err := unix.Preadv2(f.fd, [][]byte{p}, off, unix.RWF_NOWAIT)
	return err == nil && n == len(p)
}
