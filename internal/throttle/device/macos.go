package device

import (
	"errors"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// onMac returns the storage of a file system of macOS that was mounted from label, with the disks below it. With an
// error they could not be found out, and the device in the mount table stands for them: of an APFS volume it is the
// container, which all its volumes share.
func onMac(kind, label string, stores []diskwatch.Store, err error) Info {
	if err == nil && len(stores) == 0 {
		err = diskwatch.ErrNoDisk
	}
	if err != nil {
		s := Info{is: "a local " + kind + ", of an unknown medium"}
		if disk := wholeDisk(label); disk != "" {
			s.is = disk + ", of an unknown medium"
			s.Leaves, s.Weak = []Leaf{{Name: disk}}, true
		}
		if !errors.Is(err, diskwatch.ErrNoDisk) {
			s.is += " (" + err.Error() + ")"
		}
		return s
	}
	var legs []Info
	for _, one := range stores {
		s := Info{Leaves: []Leaf{{Name: one.Name, counted: one.Name}}, Weak: true, Indirect: one.Image}
		switch {
		case one.Image:
			s.is = one.Name + ", a disk image"
		case one.Solid:
			s.Medium, s.Weak = SSD, false
			s.is = one.Name + ", a solid-state disk"
		default: // as of most USB disks
			s.is = one.Name + ", of an unknown medium"
		}
		legs = append(legs, s)
	}
	if len(legs) == 1 {
		return legs[0]
	}
	return together(legs)
}
