package testkit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// writer makes a tree in three passes: objects with their content, then hard links (which touch the time of
// directories), then attributes, children before parents. Every object is addressed as a name inside an open directory,
// so no path is ever too long.
type writer struct {
	root    int // descriptor
	base    string
	refused []string
	missing map[string]bool // paths of objects that could not be made: their attributes are not tried
}

// write makes tree below root. It returns a readable line for each object or attribute that the file system refused.
func write(root string, tree Dir) ([]string, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	defer unix.Close(fd)
	w := &writer{root: fd, base: root, missing: map[string]bool{}}
	for _, pass := range []func(dir int, path, name string, e Entry){w.create, w.link, w.decorate} {
		w.each(fd, root, tree, pass)
	}
	return w.refused, nil
}

func (w *writer) refuse(path, what string, err error) {
	if err != nil {
		w.refused = append(w.refused, fmt.Sprintf("%s: %s: %v", shorten(strings.TrimPrefix(path, w.base+"/")), what, err))
	}
}

// made records an object that could not be made.
func (w *writer) made(path, what string, err error) {
	w.refuse(path, what, err)
	w.missing[path] = err != nil
}

// each calls pass for the entries of d in the order of their names; each pass descends itself.
func (w *writer) each(dir int, path string, d Dir, pass func(dir int, path, name string, e Entry)) {
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if below := path + "/" + name; !w.missing[below] {
			pass(dir, below, name, d[name])
		}
	}
}

// descend runs pass over the entries of a directory that exists.
func (w *writer) descend(dir int, path, name string, d Dir, pass func(dir int, path, name string, e Entry)) {
	fd, err := openDir(dir, name)
	if err != nil {
		w.refuse(path, "open directory", err)
		return
	}
	defer unix.Close(fd)
	w.each(fd, path, d, pass)
}

func (w *writer) create(dir int, path, name string, e Entry) {
	bare, _ := attributes(e)
	switch bare := bare.(type) {
	case Dir:
		err := unix.Mkdirat(dir, name, 0o700)
		w.made(path, "make directory", err)
		if err == nil {
			w.descend(dir, path, name, bare, w.create)
		}
	case File:
		w.made(path, "make file", writeFile(dir, name, int64(len(bare.Data)), map[int64][]byte{0: bare.Data}))
	case Sparse:
		w.made(path, "make sparse file", writeFile(dir, name, bare.Size, bare.Data))
	case Symlink:
		w.made(path, "make symlink", unix.Symlinkat(bare.Target, dir, name))
	case Fifo:
		w.made(path, "make fifo", makeNode(dir, path, name, unix.S_IFIFO, 0))
	case Socket:
		w.made(path, "make socket", makeNode(dir, path, name, unix.S_IFSOCK, 0))
	case Device:
		kind := uint32(unix.S_IFCHR)
		if bare.Block {
			kind = unix.S_IFBLK
		}
		w.made(path, "make device", makeNode(dir, path, name, kind, unix.Mkdev(bare.Major, bare.Minor)))
	}
}

func (w *writer) link(dir int, path, name string, e Entry) {
	switch bare, _ := attributes(e); bare := bare.(type) {
	case Dir:
		w.descend(dir, path, name, bare, w.link)
	case Hardlink:
		w.made(path, "link to "+bare.To, w.linkTo(bare.To, dir, name))
	}
}

func (w *writer) linkTo(target string, dir int, name string) error {
	from, err := unix.Dup(w.root)
	if err != nil {
		return err
	}
	defer func() { unix.Close(from) }()
	steps := strings.Split(target, "/")
	for _, step := range steps[:len(steps)-1] {
		next, err := openDir(from, step)
		if err != nil {
			return fmt.Errorf("open %s: %w", step, err)
		}
		unix.Close(from)
		from = next
	}
	return unix.Linkat(from, steps[len(steps)-1], dir, name, 0)
}

// decorate sets attributes in an order in which none undoes another: a change of owner clears setuid bits and
// capabilities, writing an attribute needs a mode that allows it, and times cannot be set on an immutable object.
func (w *writer) decorate(dir int, path, name string, e Entry) {
	bare, with := attributes(e)
	if d, ok := bare.(Dir); ok {
		w.descend(dir, path, name, d, w.decorate)
	}
	if with.Compressed {
		w.refuse(path, "compress", compress(path))
	}
	if o := with.Owner; o != nil {
		w.refuse(path, "set owner", unix.Fchownat(dir, name, int(o.UID), int(o.GID), unix.AT_SYMLINK_NOFOLLOW))
	}
	for _, key := range slices.Sorted(maps.Keys(with.Xattrs)) {
		w.refuse(path, "set xattr "+key, setXattr(dir, name, key, []byte(with.Xattrs[key])))
	}
	if _, isLink := bare.(Symlink); with.Mode != 0 && !isLink {
		w.refuse(path, "set mode", unix.Fchmodat(dir, name, with.Mode&0o7777, 0))
	}
	if with.ACL != "" { // refines the mode
		w.refuse(path, "set ACL", addACL(dir, path, name, with.ACL))
	}
	if !with.Mtime.IsZero() {
		ts := unix.Timespec{Sec: with.Mtime.Unix(), Nsec: int64(with.Mtime.Nanosecond())}
		w.refuse(path, "set mtime", unix.UtimesNanoAt(dir, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
	}
	if !with.Birth.IsZero() { // an earlier mtime moves it
		w.refuse(path, "set birth time", setBirth(dir, name, with.Birth))
	}
	if with.Flags != 0 {
		w.refuse(path, "set flags", addFlags(dir, name, with.Flags))
	}
}

func writeFile(dir int, name string, size int64, data map[int64][]byte) error {
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	if err = f.Truncate(size); err == nil {
		for off, p := range data {
			if _, err = f.WriteAt(p, off); err != nil {
				break
			}
		}
	}
	return errors.Join(err, f.Close())
}

// Unlock clears the flags, modes and, on macOS, access control lists that keep a tree from being changed or removed. It
// uses no path longer than root itself.
func Unlock(root string) error {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return errors.Join(unlockDir(fd), clearACLs(root))
}

func unlockDir(fd int) error {
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		st, err := lstat(fd, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		kind := uint32(st.Mode) & unix.S_IFMT
		if kind != unix.S_IFDIR && kind != unix.S_IFREG {
			continue
		}
		errs = append(errs, clearFlags(fd, name, st))
		if kind != unix.S_IFDIR {
			continue
		}
		if st.Mode&0o700 != 0o700 {
			errs = append(errs, unix.Fchmodat(fd, name, 0o700, 0))
		}
		child, err := openDir(fd, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, unlockDir(child))
		unix.Close(child)
	}
	return errors.Join(errs...)
}
