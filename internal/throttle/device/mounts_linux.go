package device

import (
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// mount finds a mount by its ID, or by the device where the kernel has no ID (0). The zero Mount: it is not there, as
// one of another namespace.
func (v *view) mount(id, dev uint64) localfs.Mount {
	table, err := sysinfo.ReadFile(v.mounts)
	if err != nil {
		return localfs.Mount{}
	}
	return localfs.FindMount(table, id, dev)
}

// source returns what the file system of an object was mounted from.
func (v *view) source(o *object) string { return v.mount(o.stat.MountID, o.stat.Dev).Source }

// layer finds the layer that counts of an overlay: the upper one, else the topmost lower one.
func (v *view) layer(mountID, dev uint64) string {
	m := v.mount(mountID, dev)
	if m.Type != "overlay" {
		return ""
	}
	lower := ""
	for option := range strings.SplitSeq(m.Options, ",") {
		switch key, value, _ := strings.Cut(option, "="); {
		case key == "upperdir":
			return sysinfo.UnescapeMount(value)
		case key == "lowerdir" && lower == "":
			lower, _, _ = strings.Cut(sysinfo.UnescapeMount(value), ":")
		case key == "lowerdir+" && lower == "":
			lower = sysinfo.UnescapeMount(value)
		}
	}
	return lower
}

// mounted returns the block devices that the mount table names for a file system without a device number, if it names
// any: "/dev/sda1", or with bcachefs "/dev/sda1:/dev/sdb1".
func (v *view) mounted(o *object) (Info, bool) {
	var legs []Info
	for path := range strings.SplitSeq(v.source(o), ":") {
		if !strings.HasPrefix(path, "/dev/") {
			return Info{}, false
		}
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			return Info{}, false
		}
		device, err := lookAt(path)
		if err != nil || device.stat.Type != tree.BlockDevice {
			return Info{}, false
		}
		legs = append(legs, v.deeper().numbered(device.stat.Rdev))
	}
	return several(legs), true
}

// several is what devices are as one on which a file system lies directly. A loop device in a file there gets no flag
// from it: the kernel looks only behind file systems on one device.
func several(legs []Info) Info {
	all := together(legs)
	all.rotates = false
	return all
}
