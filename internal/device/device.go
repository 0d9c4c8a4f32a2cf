// Package device tells what lies behind a path: solid state, a disk that turns, memory, or another machine; and which
// disks those are, so that two paths can be known to share one. From that follows how many may read or write there at
// once, and how politely.
//
// On Linux it climbs down from the file system through partitions, device mapper, md, bcache and loop devices to whole
// disks, by what the kernel shows in /sys and in the mount table. These are windows into the kernel and no data, so it
// reads them itself, without going through a door; for the directories of the user it asks internal/localfs. It only
// ever reads, needs no privilege, and starts no device that sleeps. On macOS it knows what the mount table knows.
//
// Where the kernel's word is weak, a Judge weighs it against the time that the caller's own reads took: Info is what is
// known before anything was read, and says with Weak whether measuring may know better.
//
// It refuses to know what the answer is used for, and refuses to guess: where the kernel has no evidence, the answer is
// Unknown and says why. It reads no data of its own accord: that is what Probe does, when it is called. docs/devices.md
// tells users all of this.
package device

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Medium is a kind of storage, as far as it matters for the order and number of accesses.
type Medium uint8

// The media.
const (
	Unknown Medium = iota // no evidence; the zero value
	Memory                // tmpfs, a RAM disk
	SSD                   // no moving parts: any order will do
	Remote                // the bytes are on another machine: every access waits for the wire
	HDD                   // one arm: every change of place costs some 10 ms
)

// String returns the word for it in reports and logs.
func (m Medium) String() string {
	words := []string{"unknown", "memory", "ssd", "remote", "hdd"}
	if int(m) < len(words) {
		return words[m]
	}
	return fmt.Sprintf("medium %d", uint8(m))
}

// Policy returns the column of I/O periods that holds for m. As in the kernel of macOS only what is known to be solid
// state has the short ones: another machine, and what is unknown, count as a disk that turns. So does Memory, which
// nobody asks about, since nothing there is worth waiting for.
func (m Medium) Policy() iopolicy.Medium {
	if m == SSD {
		return iopolicy.SSD
	}
	return iopolicy.HDD
}

// Slowest returns the medium that a job must heed which touches all of the given ones: a disk that turns before
// another machine, that before Unknown, which may be either, and the fast ones last. Of none it is Unknown.
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
	// Sysfs is its directory there, an absolute path without symbolic links, which holds "stat" and "inflight". Those
	// count all partitions. "" where there is no sysfs.
	Sysfs string
	// Seq is a number that no other disk gets on this boot, not even one that is plugged in under the same name later;
	// 0 where the kernel does not tell (before Linux 5.15, macOS).
	Seq uint64
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
	// Weak: the medium rests on a flag that many disks set wrongly, or is Unknown though there is a disk, and the time that
	// random reads take here tells better: see Judge.
	Weak   bool
	FS     string   // type of the file system, as the mount table names it
	Why    string   // the evidence, one English sentence
	Disks  []string // names of Leaves
	Leaves []Leaf   // sorted by name; a loop device counts if its file is on no disk
	// Key names what is shared by all who must wait for each other, for as long as the machine is up: "sda@12", by the
	// first leaf and its Seq; "remote:nfs:server" for a server; "fs:zfs:tank" for a file system that tells no disk. ""
	// where there is nothing to wait for: memory, and windows into the kernel. Two that share only some of their disks
	// have different keys: ask Overlaps.
	Key string
	// Node is the directory of sysfs of the block device that the file system lies on: a partition, a mapped device, a
	// loop device, or the disk itself. "" where there is none or more than one (a btrfs on several).
	Node string
	// Server is the machine of a Remote file system as the user named it, in lower case and without a user's name, and
	// Source what is mounted from there: "nas" and "//nas/share". Both are "" elsewhere and where the kernel does not tell.
	Server, Source string
	// Indirect: what one reads here is read from the leaves by somebody else, a loop device's worker or the daemon of a
	// FUSE file system, so that it is not found among the bytes which the kernel counts for the reader.
	Indirect bool

	domain string // Key, whatever the medium
}

// Name returns what a report calls the storage: its disks, or the server, or the type of the file system.
func (i Info) Name() string {
	switch {
	case i.Server != "":
		return "//" + i.Server
	case len(i.Disks) > 0:
		return strings.Join(i.Disks, "+")
	}
	return i.FS
}

// Overlaps tells whether I/O at a gets in the way of I/O at b: they share a disk, or a server.
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

// Of tells what lies behind path. A path that does not exist yet, such as the place of a new repository, counts as what
// the nearest directory above it lies on. Symbolic links are followed. An error means that the path cannot be looked
// at; that the medium cannot be told is no error but Unknown.
func Of(path string) (Info, error) {
	return NewFinder().Of(path)
}

// At tells what lies behind an open directory, such as the first one on the other side of a mount point. It looks up no
// path to get there.
func At(dir *localfs.Dir) (Info, error) {
	return NewFinder().At(dir)
}

// Numbered tells what lies behind a file system or a block device of this number: major<<32 | minor, as in localfs.Stat.
// ErrNumber is returned for a number that the kernel made up, such as that of a subvolume of btrfs, unless it is that of a
// file system in memory; for one that the kernel does not show here; and on macOS for all.
func Numbered(dev uint64) (Info, error) {
	s, kind, ok := hostView().byNumber(dev)
	if !ok {
		return Info{}, fmt.Errorf("find device %s: %w", numberText(dev), ErrNumber)
	}
	return s.info(kind), nil
}
