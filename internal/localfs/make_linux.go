package localfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newFile are the flags with which a file is made: it must not exist, and a symbolic link by its name is not followed.
const newFile = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_LARGEFILE

// createAt makes a file and opens it. The library's own call copies the name to the heap.
func createAt(dirfd int, name string, mode uint32) (int, error) {
	var buf nameBuf
	path := buf.pointer(name)
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(path)), newFile,
			uintptr(mode), 0, 0)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

func renameNew(dirfd int, old, new string) error {
	return unix.Renameat2(dirfd, old, dirfd, new, unix.RENAME_NOREPLACE)
}

// inheritsNothing looks for what new objects have from their directory: default ACLs are attributes of the directory
// itself, and inode flags that are inherited are set on it. Attributes that apply does not take off are none of its
// business here either.
func (d *Dir) inheritsNothing() bool {
	flags, err := getFlags(d.fd)
	if err != nil && !noFlags(err) || err == nil && flags&keptFlags != 0 {
		return false
	}
	names, err := (&object{fd: d.fd, host: d.host}).xattrNames()
	if err != nil && !Unsupported(err) {
		return false
	}
	for _, name := range names {
		if Removable(name) || isACL(name) {
			return false
		}
	}
	return true
}
