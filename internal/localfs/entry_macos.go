package localfs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// pinByName holds the entry as macOS can, which has no O_PATH: by the descriptor of open, if opening has no side effect
// and is permitted, and else by its name. It fails if another object took the name in between.
func (e *Entry) pinByName(open func() (int, error)) error {
	byName := e.dir.object(e.name)
	if err := byName.stat(&e.st); err != nil {
		return err
	}
	e.object = *byName
	if !mayOpen(&e.st) {
		return nil
	}
	fd, err := open()
	if err != nil {
		return nil // not readable, or fetched only now (EDEADLK)
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
		e.object, e.owned = object{fd: fd, host: e.dir.host}, true
	}
	return nil
}

// linkByName links by name, and removes the new name again if another object had taken the old one.
func (e *Entry) linkByName(dirfd int, name string) error {
	if err := unix.Linkat(e.dir.fd, e.name, dirfd, name, 0); err != nil {
		return err
	}
	var st Stat
	err := (&object{fd: dirfd, name: name, host: e.dir.host}).stat(&st)
	if err == nil {
		if err = e.requireSame(&st); err == nil {
			return nil
		}
	}
	_ = unix.Unlinkat(dirfd, name, 0)
	return err
}

// readlinkByName reads a symbolic link by its name, so the object is compared again afterwards.
func (e *Entry) readlinkByName() (string, error) {
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

// makeNode makes a special file in the working directory. mknod of macOS makes devices only. A socket is made by
// binding it to the name, which must be free; a link there would be followed (unp_bind of uipc_usrreq.c).
func makeNode(name string, mode uint32, dev uint64) error {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return unix.Mkfifo(name, mode&0o777)
	case unix.S_IFSOCK:
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		if errors.Is(err, unix.EADDRINUSE) { // what any other call reports by EEXIST
			return fmt.Errorf("%w (%w)", fs.ErrExist, err)
		}
		return err
	}
	return unix.Mknod(name, mode, int(int32(uint32(dev))))
}
