package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// pin opens the entry, if that has no side effect and is permitted. It fails if another object took the name in
// between.
func (e *Entry) pin(tree.Type) error {
	byName := e.dir.object(e.name)
	if err := byName.stat(&e.st); err != nil {
		return err
	}
	e.object = *byName
	if !mayOpen(&e.st) {
		return nil
	}
	fd, err := openat(e.dir.fd, e.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_SYMLINK|unix.O_CLOEXEC|unix.O_NOCTTY)
	if err != nil {
		return nil // not readable: it is reached by name
	}
	var st Stat
	if err = fstat(fd, &st); err == nil {
		err = e.requireSame(&st)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	if e.st.Type == tree.File {
		e.setFile(fd)
	} else {
		e.object, e.owned = object{fd: fd}, true
	}
	return nil
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

// link links by name, and removes the new name again if another object had taken the old one.
func (e *Entry) link(dirfd int, name string) error {
	if err := unix.Linkat(e.dir.fd, e.name, dirfd, name, 0); err != nil {
		return err
	}
	var st Stat
	err := (&object{fd: dirfd, name: name}).stat(&st)
	if err == nil {
		if err = e.requireSame(&st); err == nil {
			return nil
		}
	}
	_ = unix.Unlinkat(dirfd, name, 0)
	return err
}

// Flags returns the st_flags of the object, as Dir.Flags does.
func (e *Entry) Flags() (uint64, error) {
	flags, err := e.dir.ioctx.readFlags(&e.object)
	if err != nil {
		return 0, wrap("read flags of", e.name, err)
	}
	return uint64(flags & macKeptFlags), nil
}

// Readlink returns the target of a symbolic link, byte for byte. macOS reads it by name, so the object is compared
// again afterwards.
func (e *Entry) Readlink() (string, error) {
	target, err := e.dir.Readlink(e.name)
	if err != nil {
		return "", err
	}
	var st Stat
	if err = e.dir.Lstat(e.name, &st); err == nil {
		err = e.requireSame(&st)
	}
	if err != nil {
		return "", wrap("read link", e.name, err)
	}
	return target, nil
}
