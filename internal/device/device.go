// Package device tells what lies behind a path: solid state, a disk that turns, memory, or another machine. From that
// follows how many may read or write there at once, and later how politely.
//
// On Linux it climbs down from the file system through partitions, device mapper, md, bcache and loop devices to whole
// disks, by what the kernel shows in /sys and in the mount table. These are windows into the kernel and no data, so it
// reads them itself, without going through a door; for the directories of the user it asks internal/localfs. It only
// ever reads, needs no privilege, and starts no device that sleeps.
//
// It refuses to know what the answer is used for, and refuses to guess: where the kernel has no evidence, the answer is
// Unknown and says why. It measures nothing.
package device

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
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

// Info is what is known about the storage behind a path.
type Info struct {
	Medium Medium
	Disks  []string // whole disks at the bottom, named as in /sys/block, sorted; a loop device if its file is on none
	FS     string   // type of the file system, as the mount table names it
	Why    string   // the evidence, one English sentence
}

// Of tells what lies behind path. A path that does not exist yet, such as the place of a new repository, counts as what
// the nearest directory above it lies on. Symbolic links are followed. An error means that the path cannot be looked
// at; that the medium cannot be told is no error but Unknown.
func Of(path string) (Info, error) {
	info, err := hostView().of(path)
	if err != nil {
		return Info{}, fmt.Errorf("find device of %s: %w", path, err)
	}
	return info, nil
}

// of finds what is there and looks behind it.
func (v *view) of(path string) (Info, error) {
	path, err := nearest(path)
	if err != nil {
		return Info{}, err
	}
	o, err := lookAt(path)
	if err != nil {
		return Info{}, err
	}
	return v.medium(&o).info(o.fs.Type), nil
}

// medium goes by what the file system says of itself; behind, of which each system has its own, knows the rest.
func (v *view) medium(o *object) storage {
	switch kind := o.fs.Type; {
	case o.stat.Type == tree.BlockDevice:
		return v.behind(o)
	case o.foreign:
		return storage{is: "a file mounted over its place, from where is not known"}
	case kind == "tmpfs" || kind == "ramfs" || kind == "hugetlbfs":
		return storage{medium: Memory, is: kind + ", which keeps files in memory"}
	case o.fs.Remote:
		return storage{medium: Remote, is: kind + ", a file system of another machine"}
	case o.fs.Pseudo:
		return storage{is: kind + ", a window into the kernel or another program"}
	}
	return v.behind(o)
}

// storage is what a device or a file system turned out to be.
type storage struct {
	medium  Medium
	disks   []string
	is      string // completes the sentence "The data lies on ..."
	rotates bool   // the kernel's flag of the device on top, weak evidence or not
}

func (s storage) info(kind string) Info {
	slices.Sort(s.disks)
	return Info{Medium: s.medium, Disks: slices.Compact(s.disks), FS: kind, Why: "The data lies on " + s.is + "."}
}

// object is a file or directory to be looked behind.
type object struct {
	path    string // absolute, without symbolic links
	dir     string // path, or the directory of a file
	stat    localfs.Stat
	fs      localfs.FSInfo // of dir
	foreign bool           // a file mounted over its place: fs says nothing about it
}

// nearest returns the path, absolute and without symbolic links, of what exists of it.
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

// lookAt stats what is at a path without symbolic links, and its file system.
func lookAt(path string) (object, error) {
	o := object{path: path, dir: path}
	d, err := localfs.OpenDir(path)
	if errors.Is(err, unix.ENOTDIR) {
		o.dir = filepath.Dir(path)
		d, err = localfs.OpenDir(o.dir)
	}
	if err != nil {
		return o, err
	}
	defer d.Release()
	if o.fs, err = d.FS(); err != nil {
		return o, err
	}
	if o.stat, err = d.Fstat(); err != nil || o.dir == path {
		return o, err
	}
	around := o.stat
	if err := d.Lstat(filepath.Base(path), &o.stat); err != nil {
		return o, err
	}
	o.foreign = o.stat.MountID != around.MountID && o.stat.Type == tree.File
	return o, nil
}
