// Package device detects the storage behind a path: solid state, a rotational disk, memory, or another machine; and
// which disks it consists of, so that paths on the same disk are recognised.
//
// On Linux it follows a file system through partitions, device mapper, md, bcache and loop devices to whole disks, by
// /sys and the mount table. It reads those files directly and directories of the user through internal/localfs. It
// writes nothing, needs no privilege, and wakes no disk. On macOS it knows what the mount table shows.
//
// Without evidence the medium is Unknown, with a reason. Where the kernel's flag is weak evidence, a Classifier decides
// by service times. docs/devices.md is the user's description.
package device

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Medium is a kind of storage, as far as it matters for the order and number of accesses.
type Medium uint8

// The media.
const (
	Unknown Medium = iota // no evidence; the zero value
	Memory                // tmpfs, a RAM disk
	SSD                   // no moving parts
	Remote                // the data is on another machine
	HDD                   // rotational: a seek costs some 10 ms
)

// String returns the word for it in reports and logs.
func (m Medium) String() string {
	words := []string{"unknown", "memory", "ssd", "remote", "hdd"}
	if int(m) < len(words) {
		return words[m]
	}
	return fmt.Sprintf("medium %d", uint8(m))
}

// IOMedium returns the column of I/O periods for m. As in the kernel of macOS, only known solid state has the short
// ones.
func (m Medium) IOMedium() iopolicy.Medium {
	if m == SSD {
		return iopolicy.SSD
	}
	return iopolicy.HDD
}

// Slowest returns the medium that bounds a job which uses all of the given ones: rotational, another machine, unknown,
// and the fast ones last. Of none it is Unknown.
func Slowest(media ...Medium) Medium {
	for _, m := range []Medium{HDD, Remote, Unknown, SSD, Memory} {
		if slices.Contains(media, m) {
			return m
		}
	}
	return Unknown
}

// Leaf is a whole disk at the bottom.
type Leaf struct {
	Name string // as in /sys/block; on macOS as in /dev
	// Sysfs is its directory in /sys, absolute and without symbolic links, which holds "stat" and "inflight" of the whole
	// disk. "" where there is no sysfs.
	Sysfs string
	// Seq is a number that no other disk gets on this boot, not even one plugged in later under the same name; 0 where
	// the kernel has none (before Linux 5.15, macOS).
	Seq uint64
	// counted is the name of the disk's statistics where there is no sysfs; "" where there are none.
	counted string
}

// Stats names the statistics of the disk for diskwatch.OpenDisks: a file of sysfs, on macOS the disk; "": there are
// none.
func (l Leaf) Stats() string {
	if l.Sysfs != "" {
		return filepath.Join(l.Sysfs, "stat")
	}
	return l.counted
}

// key names the disk on this boot.
func (l Leaf) key() string {
	if l.Seq == 0 {
		return l.Name
	}
	return l.Name + "@" + strconv.FormatUint(l.Seq, 10)
}

// Info is what is known about the storage behind a path.
type Info struct {
	Medium Medium
	// Weak: the medium rests on a flag that many disks set wrongly, or is Unknown although there is a disk, so measured
	// service times decide: see Classifier.
	Weak   bool
	FS     string   // type of the file system, as the mount table names it
	Why    string   // the evidence, one English sentence
	Disks  []string // names of Leaves
	Leaves []Leaf   // sorted by name; a loop device counts if its file is on no disk
	// Key identifies the device while the machine is up: "sda@12", by the first leaf and its Seq; "remote:nfs:server" for
	// a server; "fs:zfs:tank" for a file system without visible disks. "" where no I/O waits: memory, and kernel file
	// systems. Devices that share only some disks have different keys: use Overlaps.
	Key string
	// Server is the machine of a Remote file system as it was mounted, in lower case and without a user's name; Source is
	// what was mounted: "nas" and "//nas/share". Both are "" elsewhere and where the kernel does not show it.
	Server, Source string
	// Indirect: another process reads the leaves for us, a loop device's worker or the daemon of a FUSE file system, so
	// own reads are missing in the kernel's counters of this process.
	Indirect bool

	domain  string // Key, whatever the medium; before complete, only where the leaves are not what counts
	is      string // completes the sentence "The data lies on ..."
	rotates bool   // the kernel's flag of the device on top, which a loop device in a file there inherits
}

// Name returns the name of the storage in reports: its disks, or the server, or the type of the file system.
func (i Info) Name() string {
	switch {
	case i.Server != "":
		return "//" + i.Server
	case len(i.Disks) > 0:
		return strings.Join(i.Disks, "+")
	}
	return i.FS
}

// Overlaps reports whether a and b share a disk or a server.
func Overlaps(a, b Info) bool {
	if a.Key != "" && a.Key == b.Key {
		return true
	}
	for _, leaf := range a.Leaves {
		if slices.ContainsFunc(b.Leaves, func(l Leaf) bool { return l.key() == leaf.key() }) {
			return true
		}
	}
	return false
}

// ErrNumber: a device number does not identify a device.
var ErrNumber = errors.New("the number identifies no device")

// Numbered returns what is behind a file system or block device with a number: major<<32 | minor, as in localfs.Stat.
// The error is ErrNumber for anonymous numbers, such as those of btrfs subvolumes, except of file systems in memory;
// for numbers without a visible device; and on macOS for all.
func Numbered(dev uint64) (Info, error) {
	s, kind, ok := hostView().byNumber(dev)
	if !ok {
		return Info{}, fmt.Errorf("find device %s: %w", numberText(dev), ErrNumber)
	}
	return s.complete(kind), nil
}
