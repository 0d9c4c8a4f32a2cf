package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// pin holds the entry by O_PATH. Where no device can be opened by mistake, an expected regular file is opened for
// reading at once, which saves two calls.
func (e *Entry) pin(typ tree.Type) error {
	if typ == tree.File && !e.dir.mayHoldDevices() {
		fd, err := e.dir.openRead(e.name, openUnknown)
		if fd, err = requireRegular(fd, err, &e.st); err == nil {
			e.setFile(fd)
			return nil
		}
		if err == unix.ENOENT {
			return err
		}
	}
	fd, err := openat(e.dir.fd, e.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	e.object, e.owned = object{fd: fd, host: e.dir.host, pinned: true}, true
	return fstat(fd, &e.st)
}

// reopen opens the pinned regular file for reading.
func (e *Entry) reopen() (int, error) {
	if e.dir.host.hasProc(e.dir.fd) {
		var link fdName
		return e.dir.openReadAt(e.dir.host.proc, link.of(e.object.fd), unix.O_RDONLY|unix.O_CLOEXEC)
	}
	var st Stat
	fd, err := e.dir.openRead(e.name, openUnknown)
	if fd, err = requireRegular(fd, err, &st); err != nil {
		return -1, err
	}
	if err := e.requireSame(&st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// link links the object itself, whatever its name leads to now.
func (e *Entry) link(dirfd int, name string) error {
	if e.dir.host.hasProc(e.dir.fd) {
		var link fdName
		return unix.Linkat(e.dir.host.proc, link.of(e.object.fd), dirfd, name, unix.AT_SYMLINK_FOLLOW)
	}
	return unix.Linkat(e.object.fd, "", dirfd, name, unix.AT_EMPTY_PATH)
}

// Flags returns the inode flags of the object, as Dir.Flags does.
func (e *Entry) Flags() (uint64, error) {
	switch {
	case !e.object.pinned:
	case e.st.Type == tree.File:
		if _, err := e.Open(); err != nil {
			return 0, err
		}
	case e.st.Type == tree.Dir:
		return e.dir.Flags(e.name, tree.Dir)
	default:
		return 0, nil
	}
	return e.dir.ioctx.readFlags(&e.object, e.name)
}

// Readlink returns the target of a symbolic link, byte for byte.
func (e *Entry) Readlink() (string, error) { return e.dir.ioctx.readlink(e.object.fd, "", e.name) }
