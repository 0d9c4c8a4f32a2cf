package device

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

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
		return v.btrfs(o.dir)
	case o.stat.Dev>>32 == 0: // an anonymous device: zfs, bcachefs, most of FUSE
		return storage{is: o.fs.Type + ", which tells no device"}
	}
	return v.numbered(o.stat.Dev)
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

// numberText writes a device number as the kernel does.
func numberText(dev uint64) string {
	return strconv.FormatUint(dev>>32, 10) + ":" + strconv.FormatUint(dev&0xffffffff, 10)
}

// btrfs asks the file system for its name, under which the kernel lists its devices: all subvolumes have anonymous
// device numbers, and the mount table names one device of several. The question needs no privilege.
func (v *view) btrfs(dir string) storage {
	id, err := btrfsID(dir)
	if err != nil {
		return storage{is: fmt.Sprintf("btrfs, which tells no device (%v)", err)}
	}
	return v.btrfsDevices(id)
}

func (v *view) btrfsDevices(id string) storage {
	s, ok := v.slowest(filepath.Join(v.sys, "fs/btrfs", id, "devices"))
	if !ok {
		return storage{is: "btrfs " + id + ", of which the kernel shows no devices here"}
	}
	return s
}

// btrfsInfo is BTRFS_IOC_FS_INFO, _IOR(0x94, 31, a kilobyte), as most architectures build it. On the others (mips,
// powerpc, sparc) the kernel does not know this number and says so.
const btrfsInfo = 2<<30 | 1024<<16 | 0x94<<8 | 31

// btrfsID returns the ID of a btrfs, in the form of a UUID.
func btrfsID(dir string) (string, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	var answer [128]uint64 // two numbers, then the ID; 64-bit words because the kernel's struct is aligned so
	err = retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), btrfsInfo, uintptr(unsafe.Pointer(&answer)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	id := (*[16]byte)(unsafe.Pointer(&answer[2]))
	text := hex.EncodeToString(id[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-"), nil
}

// retry repeats a call that a signal interrupted before it did anything.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
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

// layer finds the layer that counts of an overlay in the mount table: by the ID of the mount, or by the device where the
// kernel tells no ID (0).
func (v *view) layer(mountID, dev uint64) string {
	table, err := os.ReadFile(v.mounts)
	if err != nil {
		return ""
	}
	device := numberText(dev)
	for line := range bytes.Lines(table) {
		// 36 35 0:45 / /point rw,noatime shared:1 - overlay overlay rw,lowerdir=/a:/b,upperdir=/u,workdir=/w
		left, right, ok := strings.Cut(string(line), " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(kind) < 3 || kind[0] != "overlay" {
			continue
		}
		if mountID != 0 && fields[0] != strconv.FormatUint(mountID, 10) || mountID == 0 && fields[2] != device {
			continue
		}
		lower := ""
		for option := range strings.SplitSeq(kind[2], ",") {
			switch key, value, _ := strings.Cut(option, "="); {
			case key == "upperdir":
				return unescape(value)
			case key == "lowerdir" && lower == "":
				lower, _, _ = strings.Cut(unescape(value), ":")
			case key == "lowerdir+" && lower == "":
				lower = unescape(value)
			}
		}
		return lower
	}
	return ""
}

// unescape undoes how the mount table writes blanks and the like: a backslash and three octal digits.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// slowest tells of all devices that a directory of sysfs links to, if there are any.
func (v *view) slowest(dir string) (storage, bool) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return storage{}, false
	}
	var legs []storage
	for _, e := range entries {
		leg := storage{is: e.Name() + ", which the kernel does not show here"}
		if to, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil {
			leg = v.device(to)
		}
		legs = append(legs, leg)
	}
	return together(legs), true
}

// together is what several devices are as one: of the medium of the slowest.
func together(legs []storage) storage {
	var media []Medium
	var all storage
	for _, leg := range legs {
		media = append(media, leg.medium)
		all.disks = append(all.disks, leg.disks...)
		all.rotates = all.rotates || leg.rotates
	}
	all.medium = Slowest(media...)
	all.is = legs[slices.Index(media, all.medium)].is
	return all
}
