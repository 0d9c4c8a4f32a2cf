package testkit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Aspect is a set of properties that Compare compares.
type Aspect uint32

// The aspects of an entry. Its existence, its type and the target of a symlink are always compared.
const (
	AspectContent   Aspect = 1 << iota // size and every byte of a file
	AspectMode                         // 12 bits; not of symlinks, whose mode has no effect
	AspectOwner                        // user and group number
	AspectMtime                        // in nanoseconds, except of directories
	AspectDirMtime                     // in nanoseconds, of directories
	AspectXattrs                       // names and values, ACLs among them
	AspectHardlinks                    // the groups of names of one object
	AspectSparse                       // space taken on disk, roughly
	AspectFlags                        // inode flags a user can set, of files and directories
	AspectDevice                       // major and minor number
	AspectBirth                        // birth time of files and directories, on macOS
)

// CompareOptions narrows a comparison. The zero value compares everything.
type CompareOptions struct {
	Ignore      Aspect
	IgnoreXattr func(name string) bool // attributes that one of the file systems generates
	Limit       int                    // stop after this many differences; 0 stands for 1000
}

// Compare compares the trees below the directories a and b, including the two directories' own attributes. It returns
// one readable line per difference; none means equal. An unreadable object is a difference, too, unless it is
// unreadable in both. Symlinks are never followed, and paths may be of any length.
func Compare(ctx context.Context, a, b string, opt CompareOptions) []string {
	if opt.Limit == 0 {
		opt.Limit = 1000
	}
	c := &comparison{ctx: ctx, opt: opt, seen: [2]map[object]string{{}, {}}}
	fds := [2]int{-1, -1}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	for i, root := range []string{a, b} {
		fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return []string{fmt.Sprintf("open %s: %v", root, err)}
		}
		fds[i] = fd
	}
	c.entry(fds, ".", ".")
	return c.lines
}

type object struct{ dev, ino uint64 }

// comparison walks two trees in parallel. Pairs are always [a, b].
type comparison struct {
	ctx   context.Context
	opt   CompareOptions
	seen  [2]map[object]string // first path of every object that has several names
	lines []string
}

func (c *comparison) looksAt(a Aspect) bool { return c.opt.Ignore&a == 0 }

func (c *comparison) done() bool { return len(c.lines) >= c.opt.Limit || c.ctx.Err() != nil }

func (c *comparison) differ(path, format string, args ...any) {
	if len(c.lines) < c.opt.Limit {
		c.lines = append(c.lines, shorten(path)+": "+fmt.Sprintf(format, args...))
	}
}

// fail reports errors of the two sides, and returns whether there were any.
func (c *comparison) fail(path, what string, errs [2]error) bool {
	if errs[0] == nil && errs[1] == nil {
		return false
	}
	if isDenied(errs[0]) && isDenied(errs[1]) {
		return true
	}
	c.differ(path, "%s: %v, %v", what, errs[0], errs[1])
	return true
}

func isDenied(err error) bool { return err == unix.EACCES || err == unix.EPERM }

// both calls read for each side.
func both[T any](dirs [2]int, read func(side, dir int) (T, error)) (values [2]T, errs [2]error) {
	for i, dir := range dirs {
		values[i], errs[i] = read(i, dir)
	}
	return values, errs
}

func (c *comparison) dir(dirs [2]int, path string) {
	names, errs := both(dirs, func(_, dir int) ([]string, error) { return readNames(dir) })
	if c.fail(path, "read directory", errs) {
		return
	}
	only := func(these, those []string, side string) {
		for _, name := range these {
			if _, found := slices.BinarySearch(those, name); !found {
				c.differ(path+"/"+name, "only in %s", side)
			}
		}
	}
	only(names[0], names[1], "a")
	only(names[1], names[0], "b")
	for _, name := range names[0] {
		if c.done() {
			break
		}
		if _, found := slices.BinarySearch(names[1], name); found {
			c.entry(dirs, path+"/"+name, name)
		}
	}
	if err := c.ctx.Err(); err != nil && len(c.lines) == 0 {
		c.differ(path, "comparison was interrupted: %v", err)
	}
}

func (c *comparison) entry(dirs [2]int, path, name string) {
	st, errs := both(dirs, func(_, dir int) (*unix.Stat_t, error) { return lstat(dir, name) })
	if c.fail(path, "stat", errs) {
		return
	}
	kinds := [2]uint32{uint32(st[0].Mode) & unix.S_IFMT, uint32(st[1].Mode) & unix.S_IFMT}
	if kinds[0] != kinds[1] {
		c.differ(path, "type %s, %s", kindName(kinds[0]), kindName(kinds[1]))
		return
	}
	c.stats(path, kinds[0], st)
	c.hardlinks(path, kinds[0], st)
	c.xattrs(dirs, path, name)
	switch kinds[0] {
	case unix.S_IFDIR:
		c.flags(dirs, path, name, st)
		fds, errs := both(dirs, func(_, dir int) (int, error) { return openDir(dir, name) })
		if !c.fail(path, "open directory", errs) {
			c.dir(fds, path)
		}
		closeAll(fds, errs)
	case unix.S_IFREG:
		c.flags(dirs, path, name, st)
		c.content(dirs, path, name, st)
	case unix.S_IFLNK:
		targets, errs := both(dirs, func(_, dir int) (string, error) { return readLink(dir, name) })
		if !c.fail(path, "read symlink", errs) && targets[0] != targets[1] {
			c.differ(path, "symlink to %q, %q", targets[0], targets[1])
		}
	}
}

func closeAll(fds [2]int, errs [2]error) {
	for i, fd := range fds {
		if errs[i] == nil {
			unix.Close(fd)
		}
	}
}

// stats compares the fields of a stat.
func (c *comparison) stats(path string, kind uint32, st [2]*unix.Stat_t) {
	a, b := st[0], st[1]
	if c.looksAt(AspectMode) && kind != unix.S_IFLNK && a.Mode&0o7777 != b.Mode&0o7777 {
		c.differ(path, "mode %04o, %04o", a.Mode&0o7777, b.Mode&0o7777)
	}
	if c.looksAt(AspectOwner) && (a.Uid != b.Uid || a.Gid != b.Gid) {
		c.differ(path, "owner %d:%d, %d:%d", a.Uid, a.Gid, b.Uid, b.Gid)
	}
	times := AspectMtime
	if kind == unix.S_IFDIR {
		times = AspectDirMtime
	}
	if c.looksAt(times) && a.Mtim != b.Mtim {
		c.differ(path, "mtime %d.%09d, %d.%09d", a.Mtim.Sec, a.Mtim.Nsec, b.Mtim.Sec, b.Mtim.Nsec)
	}
	if keeps := kind == unix.S_IFDIR || kind == unix.S_IFREG; keeps && c.looksAt(AspectBirth) && birth(a) != birth(b) {
		c.differ(path, "birth time %v, %v", birth(a), birth(b))
	}
	if device := kind == unix.S_IFCHR || kind == unix.S_IFBLK; device && c.looksAt(AspectDevice) && a.Rdev != b.Rdev {
		c.differ(path, "device %d:%d, %d:%d", unix.Major(uint64(a.Rdev)), unix.Minor(uint64(a.Rdev)),
			unix.Major(uint64(b.Rdev)), unix.Minor(uint64(b.Rdev)))
	}
	if kind == unix.S_IFREG && c.looksAt(AspectSparse) {
		used := [2]int64{a.Blocks * 512, b.Blocks * 512}
		// A file system rounds and stores its own metadata: an eighth and 128 KiB may differ.
		if allowed := min(used[0], used[1])/8 + 128<<10; max(used[0], used[1])-min(used[0], used[1]) > allowed {
			c.differ(path, "sparse: takes %d bytes on disk, %d", used[0], used[1])
		}
	}
}

// hardlinks compares the groups of names of one object: the first name in walk order must be equal in both trees.
func (c *comparison) hardlinks(path string, kind uint32, st [2]*unix.Stat_t) {
	if kind == unix.S_IFDIR || !c.looksAt(AspectHardlinks) {
		return
	}
	first := [2]string{path, path}
	for i, s := range st {
		if s.Nlink < 2 {
			continue
		}
		id := object{uint64(s.Dev), s.Ino}
		if earlier, ok := c.seen[i][id]; ok {
			first[i] = earlier
		} else {
			c.seen[i][id] = path
		}
	}
	if first[0] != first[1] {
		c.differ(path, "hard link of %s, %s", shorten(first[0]), shorten(first[1]))
	}
}

func (c *comparison) xattrs(dirs [2]int, path, name string) {
	if !c.looksAt(AspectXattrs) {
		return
	}
	values, errs := both(dirs, func(_, dir int) (map[string]string, error) { return readXattrs(dir, name) })
	if c.fail(path, "read xattrs", errs) {
		return
	}
	all := maps.Clone(values[0])
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, values[1])
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a, inA := values[0][key]
		b, inB := values[1][key]
		if inA == inB && a == b || c.opt.IgnoreXattr != nil && c.opt.IgnoreXattr(key) {
			continue
		}
		switch {
		case !inB:
			c.differ(path, "xattr %s only in a", key)
		case !inA:
			c.differ(path, "xattr %s only in b", key)
		default:
			c.differ(path, "xattr %s %q, %q", key, shortValue(a), shortValue(b))
		}
	}
}

func shortValue(v string) string {
	const limit = 48
	if len(v) > limit {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(v[:limit], "?"), len(v))
	}
	return v
}

func (c *comparison) flags(dirs [2]int, path, name string, st [2]*unix.Stat_t) {
	if !c.looksAt(AspectFlags) {
		return
	}
	flags, errs := both(dirs, func(side, dir int) (uint32, error) { return readFlags(dir, name, st[side]) })
	if !c.fail(path, "read flags", errs) && flags[0] != flags[1] {
		c.differ(path, "flags %#x, %#x", flags[0], flags[1])
	}
}

func kindName(kind uint32) string {
	names := [16]string{
		1: "fifo", 2: "character device", 4: "directory", 6: "block device", 8: "file", 10: "symlink", 12: "socket",
	}
	return names[kind>>12]
}
