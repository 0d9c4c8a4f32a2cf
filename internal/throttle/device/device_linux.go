package device

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// view is the source of devices and mounts. Tests have their own.
type view struct {
	sys    string // the root of sysfs
	mounts string // a mountinfo table
	depth  int    // of file systems and devices above
}

// deepest bounds the layers that are followed. The kernel makes no cycles, but a path in sysfs is that of another
// mount namespace, and may lead back in ours.
const deepest = 24

func hostView() *view { return &view{sys: "/sys", mounts: "/proc/self/mountinfo"} }

// deeper returns the view of the next layer.
func (v *view) deeper() *view { return &view{v.sys, v.mounts, v.depth + 1} }

// identify returns the name under which the kernel lists the devices of a file system, if it must be queried; else "".
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

// behind returns the storage of an object of a local file system, or of a block device.
func (v *view) behind(o *object) Info {
	switch {
	case v.depth > deepest:
		return Info{is: "more layers than anybody stacks"}
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
		s.Indirect, s.Weak = true, false // what the program answers may have been in its memory
	}
	return s
}

// fuse reports whether a program reads the disk for the file system.
func fuse(kind string) bool {
	return kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.")
}

// elsewhere returns the storage of a file mounted over its place, by its device number. An anonymous number would need
// the directory around it, which is hidden.
func (v *view) elsewhere(o *object) Info {
	if o.stat.Dev>>32 != 0 {
		return v.numbered(o.stat.Dev)
	}
	return Info{is: "a file mounted over its place, from where is not known"}
}

// anonymous returns the storage of a file system with an anonymous device number: zfs, bcachefs, most of FUSE.
func (v *view) anonymous(o *object) Info {
	if !fuse(o.fs.Type) { // whose source is what a program says it is
		if s, ok := v.mounted(o); ok {
			s.is = o.fs.Type + " on " + s.is
			return s
		}
	}
	s := Info{is: o.fs.Type + ", which shows no device", Indirect: fuse(o.fs.Type)}
	if o.fs.Type == "zfs" { // pool/dataset
		if pool, _, _ := strings.Cut(v.source(o), "/"); pool != "" {
			s.domain = "fs:zfs:" + pool
		}
	}
	return s
}

// numbered returns the storage of a block device, by its number: major<<32 | minor.
func (v *view) numbered(dev uint64) Info {
	number := numberText(dev)
	dir, err := filepath.EvalSymlinks(filepath.Join(v.sys, "dev/block", number))
	if err != nil {
		return Info{is: "device " + number + ", which the kernel does not show here"}
	}
	return v.device(dir)
}

// byNumber is numbered for any file system, with its type where known; !ok: the storage is not known.
func (v *view) byNumber(dev uint64) (s Info, kind string, ok bool) {
	if dev>>32 == 0 {
		o := object{fs: localfs.FSInfo{Type: v.mount(0, dev).Type}, stat: localfs.Stat{Dev: dev, Type: tree.Dir}}
		s = v.medium(&o)
		return s, o.fs.Type, s.Medium == Memory
	}
	s = v.numbered(dev)
	return s, "", len(s.Leaves) > 0 || s.domain != "" || s.Medium == Memory
}

// btrfs uses the ID of the file system, under which the kernel lists its devices; without one, the device in the mount
// table.
func (v *view) btrfs(o *object) Info {
	if o.label != "" {
		return v.btrfsDevices(o.label)
	}
	if s, ok := v.mounted(o); ok {
		s.is = "btrfs on " + s.is
		return s
	}
	return Info{is: "btrfs, which shows no device"}
}

func (v *view) btrfsDevices(id string) Info {
	legs := v.linked(filepath.Join(v.sys, "fs/btrfs", id, "devices"))
	if len(legs) == 0 {
		return Info{is: "btrfs " + id + ", whose devices the kernel does not show here"}
	}
	return several(legs)
}

// overlay returns the storage of the upper layer, which takes all changes; without one, of the topmost lower layer.
// The path is that of the host: inside a container it usually does not exist.
func (v *view) overlay(o *object) Info {
	layer := v.layer(o.stat.MountID, o.stat.Dev)
	if !filepath.IsAbs(layer) {
		return Info{is: "overlay with unknown layers"}
	}
	below, err := lookAt(layer)
	if err != nil {
		return Info{is: "overlay, whose layer " + layer + " cannot be seen from here"}
	}
	s := v.deeper().medium(&below)
	s.is = "overlay on " + s.is
	s.rotates = false // a loop device in a file of an overlay does not see through it
	return s
}

// linked returns the storage of all devices that a directory of sysfs links to.
func (v *view) linked(dir string) []Info {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var legs []Info
	for _, e := range entries {
		leg := Info{is: e.Name() + ", which the kernel does not show here"}
		if to, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil {
			leg = v.device(to)
		}
		legs = append(legs, leg)
	}
	return legs
}
