package testkit

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// openDir opens the directory name inside dir.
func openDir(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// lstat describes name inside dir, without following it.
func lstat(dir int, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, fmt.Errorf("stat %s: %w", strconv.Quote(name), err)
	}
	return &st, nil
}

// readNames returns the sorted names of the entries of a directory.
func readNames(dir int) ([]string, error) {
	fd, err := openDir(dir, ".")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// readLink returns the target of the symlink name, however long.
func readLink(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		p := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, p)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(p[:n]), nil
		}
	}
}

// collectXattrs reads all attributes through list and get, which are the system calls on one object. A file system
// without attributes yields none.
func collectXattrs(list func([]byte) (int, error), get func(string, []byte) (int, error)) (map[string]string, error) {
	keys, err := grow(list)
	if err == unix.ENOTSUP || err == unix.EOPNOTSUPP || len(keys) == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for start, i := 0, 0; i < len(keys); i++ {
		if keys[i] != 0 {
			continue
		}
		key := string(keys[start:i])
		start = i + 1
		value, err := grow(func(p []byte) (int, error) { return get(key, p) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		all[key] = string(value)
	}
	return all, nil
}

// grow calls read with larger buffers until the value fits.
func grow(read func([]byte) (int, error)) ([]byte, error) {
	for size := 1 << 10; ; size *= 4 {
		p := make([]byte, size)
		n, err := read(p)
		if err == unix.ERANGE && size < 64<<20 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return p[:n], nil
	}
}

// shorten shortens a path to a line, keeping both ends, and quotes unprintable characters.
func shorten(path string) string {
	const limit = 160
	if len(path) > limit {
		path = path[:limit/2] + "…" + path[len(path)-limit/2:]
	}
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}
