package device

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// device returns the storage of a block device, by its directory in sysfs without symbolic links.
func (v *view) device(dir string) Info {
	if v.depth > deepest {
		return Info{is: "more layers than anybody stacks"}
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir) // the whole disk, which has the queue
	}
	s := v.stack(dir)
	s.rotates, _ = rotational(dir)
	return s
}

// stack follows a device that is made of others.
func (v *view) stack(dir string) Info {
	name := filepath.Base(dir)
	if legs := v.deeper().linked(filepath.Join(dir, "slaves")); len(legs) > 0 { // device mapper, md
		s := together(legs)
		s.is = name + " on " + s.is
		return s
	}
	if file := attribute(dir, "loop/backing_file"); file != "" {
		return v.loop(dir, file)
	}
	// The link leads into the directory of the device that is cached; of the cache no more than that is needed.
	if to, err := filepath.EvalSymlinks(filepath.Join(dir, "bcache")); err == nil && filepath.Dir(to) != dir {
		s := v.deeper().device(filepath.Dir(to))
		s.is = name + " on " + s.is
		return s
	}
	return disk(dir)
}

// loop returns the storage of a loop device's file. The kernel copies the flag of the device below, or sets it to 0
// without one; so a flag that differs was set by a person.
func (v *view) loop(dir, file string) Info {
	name := filepath.Base(dir)
	unseen := Info{is: name + " in " + file + ", which cannot be seen from here", Leaves: leaf(dir)}
	path, deleted := strings.CutSuffix(file, " (deleted)")
	o, err := lookAt(path)
	if err != nil && deleted {
		o, err = lookAt(filepath.Dir(path))
	}
	if err != nil {
		return unseen
	}
	below := v.deeper().medium(&o)
	if below.Indirect = true; len(below.Leaves) == 0 {
		below.Leaves, below.Indirect = leaf(dir), false
	}
	below.is = name + " on " + below.is
	below.Weak = below.Weak && attribute(dir, "loop/dio") == "1" // otherwise what it reads may have been in memory
	switch turns, known := rotational(dir); {
	case known && turns && !below.rotates:
		below.Medium, below.Weak = HDD, false
		below.is = name + ", set to rotational by hand (rotational is 1)"
	case known && !turns && below.rotates:
		below.Medium, below.Weak = SSD, false
		below.is = name + ", set to not rotational by hand (rotational is 0)"
	}
	return below
}

// leaf is a disk by its directory in sysfs.
func leaf(dir string) []Leaf {
	seq, _ := strconv.ParseUint(attribute(dir, "diskseq"), 10, 64) // 0: not known
	return []Leaf{{Name: filepath.Base(dir), Sysfs: dir, Seq: seq}}
}

// disk returns the storage of a device that is not made of others. A flag of 0 is good evidence: the driver has asked
// the device, or a person has set it. 1 is the default.
func disk(dir string) Info {
	name := filepath.Base(dir)
	s := Info{Leaves: leaf(dir), Weak: true}
	turns, known := rotational(dir)
	switch kind := driven(name); {
	case kind == "memory":
		s.Medium, s.is, s.Weak = Memory, name+", a disk in memory", false
	case kind == "stack":
		s.is, s.Leaves, s.Weak = name+", whose disks the kernel does not show", nil, false
	case kind == "network":
		s.is = name + ", a disk on another machine, whose medium is unknown"
	case !known:
		s.is = name + ", which does not report whether it is rotational"
	case !turns:
		s.Medium, s.is, s.Weak = SSD, name+", which does not turn (rotational is 0)", false
	default:
		turning(&s, dir)
	}
	return s
}

// driven returns what the name implies for drivers whose flag is a constant; "" for others.
func driven(name string) string {
	switch strings.TrimRight(name, "0123456789") {
	case "ram", "zram":
		return "memory"
	case "dm-", "md", "md_d", "bcache", "loop":
		return "stack"
	case "nbd", "rbd", "drbd":
		return "network"
	}
	return ""
}

// turning weighs the evidence of a disk that says rotational=1. A rate of revolutions can only come from a disk that
// has one; without it the flag is the kernel's default, which counts for little, and for nothing where something stands
// before the disk.
func turning(s *Info, dir string) {
	name := filepath.Base(dir)
	if rpm := revolutions(dir); rpm > 0 {
		s.Medium, s.Weak = HDD, false
		s.is = fmt.Sprintf("%s, which turns %d times a minute", name, rpm)
	} else if veil := veiled(dir); veil != "" {
		s.is = fmt.Sprintf("%s, %s: rotational=1 says nothing about its medium", name, veil)
	} else {
		s.Medium, s.is = HDD, name+", which turns (rotational is 1)"
	}
}

// revolutions returns how often a SCSI or ATA disk turns in a minute, by its page of block device characteristics,
// which kernels since 6.0 show. 0: not known.
func revolutions(dir string) int {
	page, err := sysinfo.ReadFile(filepath.Join(dir, "device/vpd_pgb1"))
	if err != nil || len(page) < 6 || page[1] != 0xb1 {
		return 0
	}
	rate := binary.BigEndian.Uint16(page[4:])
	if rate < 0x401 || rate == 0xffff { // 0: not reported, 1: does not turn, others: reserved
		return 0
	}
	return int(rate)
}

// veiled names what stands between us and the disk and makes its flag worthless; "" for nothing. The hypervisors give
// their disks a default; a bridge from USB seldom hands on what it is asked; a target of iSCSI is anything.
func veiled(dir string) string {
	for part := range strings.SplitSeq(dir, string(filepath.Separator)) {
		switch stem := strings.TrimRight(part, "0123456789"); {
		case stem == "virtio" && part != stem:
			return "a virtio disk"
		case stem == "usb" && part != stem:
			return "a disk behind a USB bridge"
		case stem == "session" && part != stem:
			return "an iSCSI disk"
		case stem == "vbd-":
			return "a Xen disk"
		}
	}
	maker := attribute(dir, "device/vendor") + " " + attribute(dir, "device/model")
	for _, word := range []string{"QEMU", "VBOX", "VMware", "Virtual", "Msft"} {
		if strings.Contains(maker, word) {
			return "a disk of a virtual machine"
		}
	}
	return ""
}

// rotational reads the kernel's flag of a device.
func rotational(dir string) (turns, known bool) {
	text := attribute(dir, "queue/rotational")
	return text == "1", text == "0" || text == "1"
}

// attribute reads a text of sysfs; "" when there is none.
func attribute(dir, name string) string {
	text, err := sysinfo.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
