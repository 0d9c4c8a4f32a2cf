package device

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// view is where the kernel shows its devices and mounts. Tests have their own.
type view struct {
	sys    string // the root of sysfs
	mounts string // a mountinfo table
	depth  int    // of file systems and devices above
}

// deepest is how many layers are followed. The kernel makes no circles, but a path that it shows was true in the mount
// namespace of whoever set a layer up, and may lead back to where we come from in ours.
const deepest = 24

func hostView() *view { return &view{sys: "/sys", mounts: "/proc/self/mountinfo"} }

// deeper is the view of the next layer.
func (v *view) deeper() *view { return &view{v.sys, v.mounts, v.depth + 1} }

// identify returns the name by which the kernel lists the devices of a file system, if it must be asked for it; "" if it
// does not tell.
func identify(d *localfs.Dir, kind string) string {
	if kind != "btrfs" {
		return ""
	}
	id, err := d.BtrfsID()
	if err != nil {
		return ""
	}
	return id
}

// behind tells what an object of a local file system, or a block device, lies on.
func (v *view) behind(o *object) storage {
	switch {
	case v.depth > deepest:
		return storage{is: "more layers than anybody stacks"}
	case o.stat.Type == tree.BlockDevice:
		return v.numbered(o.stat.Rdev)
	case o.fs.Type == "overlay":
		return v.overlay(o)
	case o.fs.Type == "btrfs":
		return v.btrfs(o)
	case o.stat.Dev>>32 == 0:
		return v.anonymous(o)
	}
	s := v.numbered(o.stat.Dev)
	if fuse(o.fs.Type) {
		s.indirect, s.weak = true, false // what the program answers may have been in its memory
	}
	return s
}

// fuse tells whether the files are those of a program that reads the disk for us.
func fuse(kind string) bool {
	return kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.")
}

// elsewhere tells of a file mounted over its place, by its own device number. That of a file system without a device says
// nothing without the directory around it, which is not to be had.
func (v *view) elsewhere(o *object) storage {
	if o.stat.Dev>>32 != 0 {
		return v.numbered(o.stat.Dev)
	}
	return storage{is: "a file mounted over its place, from where is not known"}
}

// anonymous tells of a file system whose device number the kernel made up: zfs, bcachefs, most of FUSE.
func (v *view) anonymous(o *object) storage {
	if !fuse(o.fs.Type) { // whose source is what a program says it is
		if s, ok := v.mounted(o); ok {
			s.is = o.fs.Type + " on " + s.is
			return s
		}
	}
	s := storage{is: o.fs.Type + ", which tells no device", indirect: fuse(o.fs.Type)}
	if o.fs.Type == "zfs" { // pool/dataset
		if pool, _, _ := strings.Cut(v.source(o), "/"); pool != "" {
			s.domain = "fs:zfs:" + pool
		}
	}
	return s
}

// numbered tells what a block device is, by its number: major<<32 | minor.
func (v *view) numbered(dev uint64) storage {
	number := numberText(dev)
	dir, err := filepath.EvalSymlinks(filepath.Join(v.sys, "dev/block", number))
	if err != nil {
		return storage{is: "device " + number + ", which the kernel does not show here"}
	}
	return v.device(dir)
}

// byNumber is numbered for any file system, whose type it returns where it is known; !ok: not known what it lies on.
func (v *view) byNumber(dev uint64) (s storage, kind string, ok bool) {
	if dev>>32 == 0 {
		o := object{fs: localfs.FSInfo{Type: v.mount(0, dev).kind}, stat: localfs.Stat{Dev: dev, Type: tree.Dir}}
		s = v.medium(&o)
		return s, o.fs.Type, s.medium == Memory
	}
	s = v.numbered(dev)
	return s, "", len(s.leaves) > 0 || s.domain != "" || s.medium == Memory
}

// btrfs goes by the ID of the file system, under which the kernel lists its devices. Where the directory could not be
// asked for that, the one device that the mount table names must do.
func (v *view) btrfs(o *object) storage {
	if o.label != "" {
		return v.btrfsDevices(o.label)
	}
	if s, ok := v.mounted(o); ok {
		s.is = "btrfs on " + s.is
		return s
	}
	return storage{is: "btrfs, which tells no device"}
}

func (v *view) btrfsDevices(id string) storage {
	legs := v.linked(filepath.Join(v.sys, "fs/btrfs", id, "devices"))
	if len(legs) == 0 {
		return storage{is: "btrfs " + id + ", of which the kernel shows no devices here"}
	}
	return several(legs)
}

// overlay tells what the upper layer lies on, where everything that changes is; without one, the topmost lower layer.
// The path is that of the machine: inside a container it usually leads nowhere.
func (v *view) overlay(o *object) storage {
	layer := v.layer(o.stat.MountID, o.stat.Dev)
	if !filepath.IsAbs(layer) {
		return storage{is: "overlay, whose layers are not told"}
	}
	below, err := lookAt(layer)
	if err != nil {
		return storage{is: "overlay, whose layer " + layer + " cannot be seen from here"}
	}
	s := v.deeper().medium(&below)
	s.is = "overlay on " + s.is
	s.rotates = false // a loop device in a file of an overlay does not see through it
	return s
}

// linked tells of all devices that a directory of sysfs links to.
func (v *view) linked(dir string) []storage {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var legs []storage
	for _, e := range entries {
		leg := storage{is: e.Name() + ", which the kernel does not show here"}
		if to, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil {
			leg = v.device(to)
		}
		legs = append(legs, leg)
	}
	return legs
}
