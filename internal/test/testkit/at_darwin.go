package testkit

import "golang.org/x/sys/unix"

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
	return collectXattrs(
		func(p []byte) (int, error) { return unix.Flistxattr(fd, p) },
		func(key string, p []byte) (int, error) { return unix.Fgetxattr(fd, key, p) })
}

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
