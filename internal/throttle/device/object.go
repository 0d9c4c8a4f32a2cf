package device

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// inform returns all that is known of an object. What lies on no disk and no server known is a domain of its own, by
// the device number that the system made up for the file system; a window into the kernel is none.
func (v *view) inform(o *object) Info {
	s := v.medium(o)
	if s.domain == "" && len(s.Leaves) == 0 && !o.fs.Pseudo {
		s.domain = "fs:" + o.fs.Type + ":" + numberText(o.stat.Dev)
	}
	return s.complete(o.fs.Type)
}

// medium uses the type of the file system; behind, which each system implements, handles the rest.
func (v *view) medium(o *object) Info {
	switch kind := o.fs.Type; {
	case o.stat.Type == tree.BlockDevice:
		return v.behind(o)
	case o.foreign:
		return v.elsewhere(o)
	case kind == "tmpfs" || kind == "ramfs" || kind == "hugetlbfs":
		return Info{Medium: Memory, is: kind + ", which keeps files in memory"}
	case o.fs.Remote:
		return remote(o, v.source(o))
	case o.fs.Pseudo:
		return Info{is: kind + ", a window into the kernel or another program"}
	}
	return v.behind(o)
}

// remote is a file system of another machine, mounted from source. Everything mounted from one server by one protocol
// is one domain; without a name each file system is.
func remote(o *object, source string) Info {
	kind := o.fs.Type
	s := Info{Medium: Remote, Server: serverOf(kind, source), Source: withoutLogin(source)}
	s.is = kind + ", a file system of another machine"
	name := s.Server
	if name == "" {
		name = numberText(o.stat.Dev)
	}
	s.domain = "remote:" + protocol(kind) + ":" + name
	return s
}

// complete adds what follows from the rest, and the type of the file system.
func (i Info) complete(kind string) Info {
	slices.SortFunc(i.Leaves, func(a, b Leaf) int { return cmp.Compare(a.Name, b.Name) })
	i.Leaves = slices.Compact(i.Leaves)
	for _, leaf := range i.Leaves {
		i.Disks = append(i.Disks, leaf.Name)
	}
	i.FS, i.Why, i.Weak = kind, "The data lies on "+i.is+".", i.Weak && i.Medium != Memory
	if i.domain == "" && len(i.Leaves) > 0 {
		i.domain = i.Leaves[0].key()
	}
	if i.Medium != Memory {
		i.Key = i.domain
	}
	return i
}

// together returns several devices as one: with the medium of the slowest and the best evidence for it. They are on a
// server only if all are.
func together(legs []Info) Info {
	var media []Medium
	for _, leg := range legs {
		media = append(media, leg.Medium)
	}
	first := legs[0]
	all := Info{
		Medium: Slowest(media...), Weak: true, domain: first.domain, Server: first.Server, Source: first.Source,
	}
	all.is = legs[slices.Index(media, all.Medium)].is
	for _, leg := range legs {
		all.Weak = all.Weak && (leg.Weak || leg.Medium != all.Medium)
		all.Leaves = append(all.Leaves, leg.Leaves...)
		all.rotates = all.rotates || leg.rotates
		all.Indirect = all.Indirect || leg.Indirect
		if leg.domain != first.domain {
			all.domain, all.Server, all.Source = "", "", ""
		}
	}
	return all
}

// object is a file or directory whose storage is wanted.
type object struct {
	stat    localfs.Stat
	fs      localfs.FSInfo // of the directory, or of that of a file
	label   string         // what the system calls that file system: see identify
	foreign bool           // a file mounted over its place: fs says nothing about it
}

// nearest returns the existing part of a path, absolute and without symbolic links.
func nearest(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		found, err := filepath.EvalSymlinks(path)
		if err == nil {
			return found, nil
		}
		up := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || up == path {
			return "", err
		}
		path = up
	}
}

// lookAt stats a path without symbolic links, and its file system.
func lookAt(path string) (object, error) {
	var o object
	dir := path
	d, err := localfs.OpenSearchable(dir)
	if errors.Is(err, unix.ENOTDIR) {
		dir = filepath.Dir(path)
		d, err = localfs.OpenSearchable(dir)
	}
	if err != nil {
		return o, err
	}
	defer d.Release()
	if err := o.ask(d); err != nil || dir == path {
		return o, err
	}
	around := o.stat
	if err := d.Lstat(filepath.Base(path), &o.stat); err != nil {
		return o, err
	}
	o.foreign = o.stat.MountID != around.MountID && o.stat.Type == tree.File
	return o, nil
}

// ask fills in the facts of an open directory.
func (o *object) ask(d *localfs.Dir) (err error) {
	if o.fs, err = d.FS(); err != nil {
		return err
	}
	if o.stat, err = d.Fstat(); err != nil {
		return err
	}
	o.label = identify(d, o.fs.Type)
	return nil
}

// numberText writes a device number, major<<32 | minor, as Linux does.
func numberText(dev uint64) string {
	return strconv.FormatUint(dev>>32, 10) + ":" + strconv.FormatUint(dev&0xffffffff, 10)
}
