package testkit

import (
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The inode flags of linux/fs.h that tests set.
const (
	FlagImmutable = 0x10
	FlagAppend    = 0x20
	FlagNoDump    = 0x40
)

// settableFlags are the inode flags a user can set; the others describe how the file system stores the object. In the
// order of linux/fs.h: SECRM UNRM COMPR SYNC IMMUTABLE APPEND NODUMP NOATIME, JOURNAL_DATA NOTAIL DIRSYNC TOPDIR,
// NOCOW, PROJINHERIT CASEFOLD.
const settableFlags = 0xff | 0x3c000 | 0x800000 | 0x60000000

// lockingFlags keep an object from being changed or removed.
const lockingFlags = FlagImmutable | FlagAppend

// viaProc names an entry of an open directory by a short path, for system calls that take no descriptor.
func viaProc(dir int, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name
}

func makeNode(dir int, _, name string, kind uint32, rdev uint64) error {
	return unix.Mknodat(dir, name, kind|0o600, int(rdev))
}

func setXattr(dir int, name, key string, value []byte) error {
	return unix.Lsetxattr(viaProc(dir, name), key, value, 0)
}

func readXattrs(dir int, name string) (map[string]string, error) {
	path := viaProc(dir, name)
	return collectXattrs(
		func(p []byte) (int, error) { return unix.Llistxattr(path, p) },
		func(key string, p []byte) (int, error) { return unix.Lgetxattr(path, key, p) })
}

// readFlags returns the settable flags of a file or directory; 0 where the file system has none.
func readFlags(dir int, name string, _ *unix.Stat_t) (uint32, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == unix.ENOTTY || err == unix.ENOTSUP || err == unix.EINVAL || err == unix.ENOSYS {
		return 0, nil
	}
	return uint32(flags) & settableFlags, err
}

func addFlags(dir int, name string, flags uint32) error {
	return changeFlags(dir, name, func(old uint32) uint32 { return old | flags })
}

func clearFlags(dir int, name string, st *unix.Stat_t) error {
	if flags, err := readFlags(dir, name, st); err != nil || flags&lockingFlags == 0 {
		return nil // only root could set flags on an object that its owner cannot open
	}
	return changeFlags(dir, name, func(old uint32) uint32 { return old &^ lockingFlags })
}

func changeFlags(dir int, name string, change func(uint32) uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	old, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(change(uint32(old))))
}

// addACL uses the path, which must be short enough, since /proc/self is that of the program.
func addACL(_ int, path, _, entry string) error {
	if out, err := exec.Command("setfacl", "-m", entry, path).CombinedOutput(); err != nil {
		return fmt.Errorf("setfacl: %w: %s", err, out)
	}
	return nil
}

func compress(string) error { return unix.ENOTSUP }

func setBirth(int, string, time.Time) error { return unix.ENOTSUP }

// birth returns nothing: no program can set it.
func birth(*unix.Stat_t) unix.Timespec { return unix.Timespec{} }

// clearACLs does nothing: here, no list denies a removal to the owner of the directory.
func clearACLs(string) error { return nil }
