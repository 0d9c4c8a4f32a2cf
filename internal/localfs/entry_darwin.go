package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// pin opens the entry, if that has no side effect and is permitted.
func (e *Entry) pin(tree.Type) error {
	return e.pinByName(func() (int, error) {
		return openat(e.dir.fd, e.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_SYMLINK|unix.O_CLOEXEC|unix.O_NOCTTY)
	})
}

// reopen opens a regular file that Pin could not open.
func (e *Entry) reopen() (int, error) {
	var st Stat
	fd, err := e.dir.openRegular(e.name, &st)
	if err != nil {
		return -1, err
	}
	if err := e.requireSame(&st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (e *Entry) link(dirfd int, name string) error { return e.linkByName(dirfd, name) }

// Flags returns the st_flags of the object, as Dir.Flags does.
func (e *Entry) Flags() (uint64, error) {
	return e.dir.ioctx.readFlags(&e.object, e.name)
}

// Readlink returns the target of a symbolic link, byte for byte.
func (e *Entry) Readlink() (string, error) { return e.readlinkByName() }
