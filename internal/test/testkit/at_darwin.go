package testkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The flags of chflags(2) that tests set.
const (
	FlagNoDump    = 0x1
	FlagImmutable = 0x2
	FlagAppend    = 0x4
)

// lockingFlags keep an object from being changed or removed; the last two are the super-user's variants.
const lockingFlags = FlagImmutable | FlagAppend | 0x20000 | 0x40000

// settableFlags are the flags that are independent of how the file system stores the object; the last three are opaque,
// hidden and archived.
const settableFlags = lockingFlags | FlagNoDump | 0x8 | 0x8000 | 0x10000

// makeNode uses the path, which must be short enough: macOS has no variant relative to a directory.
func makeNode(_ int, path, _ string, kind uint32, rdev uint64) error {
	switch kind {
	case unix.S_IFIFO:
		return unix.Mkfifo(path, 0o600)
	case unix.S_IFSOCK:
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	return unix.Mknod(path, kind|0o600, int(rdev))
}

// openItself opens the object of that name, even a symlink.
func openItself(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_SYMLINK|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

func setXattr(dir int, name, key string, value []byte) error {
	fd, err := openItself(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, key, value, 0)
}

func readXattrs(dir int, name string) (map[string]string, error) {
	fd, err := openItself(dir, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	all, err := collectXattrs(
		func(p []byte) (int, error) { return unix.Flistxattr(fd, p) },
		func(key string, p []byte) (int, error) { return unix.Fgetxattr(fd, key, p) })
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"com.apple.provenance", "com.apple.macl", "com.apple.rootless"} {
		delete(all, key) // the system sets them
	}
	acl, err := readACL(fd)
	if acl != "" {
		if all == nil {
			all = map[string]string{}
		}
		all["ACL"] = acl
	}
	return all, err
}

// attributeList calls the getattrlist family for one attribute of an open object: struct attrlist of sys/attr.h.
func attributeList(call uintptr, fd int, attribute uint32, buf []byte) error {
	list := struct {
		bitmaps, _                         uint16
		common, volume, dir, file, forking uint32
	}{bitmaps: 5, common: attribute}
	_, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&buf[0])),
		uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// readACL returns the entries of the access control list, as struct kauth_acl of sys/kauth.h; "" if there is none. The
// buffer has its length, then offset and length of a struct kauth_filesec, which begins with a number and two IDs.
func readACL(fd int) (string, error) {
	const ids = 4 + 16 + 16
	buf := make([]byte, 16<<10)
	err := attributeList(unix.SYS_FGETATTRLIST, fd, unix.ATTR_CMN_EXTENDED_SECURITY, buf)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read ACL: %w", err)
	}
	at, size := 4+int(int32(binary.LittleEndian.Uint32(buf[4:]))), int(binary.LittleEndian.Uint32(buf[8:]))
	if size <= ids {
		return "", nil
	}
	return string(buf[at+ids : at+size]), nil
}

// addACL uses the path, which must be short enough.
func addACL(_ int, path, _, entry string) error {
	if out, err := exec.Command("/bin/chmod", "-h", "+a", entry, path).CombinedOutput(); err != nil {
		return fmt.Errorf("chmod +a: %w: %s", err, out)
	}
	return nil
}

// compress has the file system compress a file, as the system does with those that it installs (decmpfs).
func compress(path string) error {
	made := path + ".compressed"
	if out, err := exec.Command("/usr/bin/ditto", "--hfsCompression", path, made).CombinedOutput(); err != nil {
		return fmt.Errorf("ditto: %w: %s", err, out)
	}
	var st unix.Stat_t
	if err := unix.Stat(made, &st); err != nil {
		return err
	}
	if st.Flags&unix.UF_COMPRESSED == 0 {
		return errors.Join(errors.New("ditto did not compress it"), os.Remove(made))
	}
	return os.Rename(made, path)
}

func setBirth(dir int, name string, at time.Time) error {
	fd, err := openItself(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := binary.LittleEndian.AppendUint64(nil, uint64(at.Unix())) // struct timespec
	buf = binary.LittleEndian.AppendUint64(buf, uint64(at.Nanosecond()))
	return attributeList(unix.SYS_FSETATTRLIST, fd, unix.ATTR_CMN_CRTIME, buf)
}

func birth(st *unix.Stat_t) unix.Timespec { return st.Btim }

func readFlags(_ int, _ string, st *unix.Stat_t) (uint32, error) {
	return st.Flags & settableFlags, nil
}

func addFlags(dir int, name string, flags uint32) error {
	st, err := lstat(dir, name)
	if err != nil {
		return err
	}
	return setFlags(dir, name, st.Flags|flags)
}

func clearFlags(dir int, name string, st *unix.Stat_t) error {
	if st.Flags&lockingFlags == 0 {
		return nil
	}
	return setFlags(dir, name, st.Flags&^lockingFlags)
}

func setFlags(dir int, name string, flags uint32) error {
	fd, err := openItself(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchflags(fd, int(flags))
}

// clearACLs removes the access control lists of a tree: one can deny the owner a removal.
func clearACLs(root string) error { return exec.Command("/bin/chmod", "-RN", root).Run() }
