package localfs

import "golang.org/x/sys/unix"

func renameNew(fromfd int, old string, tofd int, new string) error {
	return unix.Renameat2(fromfd, old, tofd, new, unix.RENAME_NOREPLACE)
}

// inheritsNothing looks for default ACLs, which are attributes of the directory, and for inherited inode flags, which
// are set on it. Attributes that apply never removes do not matter.
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
