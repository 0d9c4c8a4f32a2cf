package localfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// host is what the directories below one OpenDir share.
type host struct {
	moving sync.Mutex // held by moveChecked, which is not atomic
}

func newHost() *host { return &host{} }

func (h *host) retain()  {}
func (h *host) release() {}

// searchOnly is O_EXEC of sys/fcntl.h: it opens a directory for lookups, without the right to read it.
const searchOnly = 0x40000000

func openatMode(dirfd int, name string, flags int, mode uint32) (int, error) {
	fd, err := retryCount(func() (int, error) { return unix.Openat(dirfd, name, flags, mode) })
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// openRead opens for reading. macOS cannot keep the access time.
func (d *Dir) openRead(name string, flags int) (int, error) {
	return openat(d.fd, name, unix.O_RDONLY|flags)
}

// openRegular opens the regular file name and fills st. macOS cannot pin an object, so the entry is checked right
// before: a device that root swaps in between the two calls would be opened and closed.
func (d *Dir) openRegular(name string, st *Stat) (int, error) {
	if err := d.object(name).stat(st); err != nil {
		return -1, err
	}
	if err := mayRead(st); err != nil {
		return -1, err
	}
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY)
	if err != nil {
		return -1, openErrorOfMac(err)
	}
	if err := fstatRegular(fd, st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openKnown is openRegular: macOS has no cheaper way.
func (d *Dir) openKnown(name string, _ Known, st *Stat) (int, error) { return d.openRegular(name, st) }

func (d *Dir) lstat(name string, st *Stat) error { return d.object(name).stat(st) }

func fstat(fd int, st *Stat) error {
	var raw unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &raw) }); err != nil {
		return err
	}
	fromStat(&raw, st)
	return nil
}

func (o *object) stat(st *Stat) error {
	if o.name == "" {
		return fstat(o.fd, st)
	}
	var raw unix.Stat_t
	err := retry(func() error { return unix.Fstatat(o.fd, o.name, &raw, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return err
	}
	fromStat(&raw, st)
	return nil
}

func fromStat(raw *unix.Stat_t, st *Stat) {
	dev, rdev := uint64(uint32(raw.Dev)), uint64(uint32(raw.Rdev))
	*st = Stat{
		Type: typeOfMode(uint32(raw.Mode)), Mode: uint32(raw.Mode) & 0o7777,
		UID: raw.Uid, GID: raw.Gid,
		Ino: raw.Ino, Links: uint64(raw.Nlink), Size: uint64(raw.Size), Blocks512: uint64(raw.Blocks),
		Dev:   device(unix.Major(dev), unix.Minor(dev)),
		Mtime: timeOf(raw.Mtim), Ctime: timeOf(raw.Ctim), Atime: timeOf(raw.Atim),
		Birth: birthOf(raw.Btim.Sec, raw.Btim.Nsec),
	}
	if st.Type == tree.CharDevice || st.Type == tree.BlockDevice {
		st.Rdev = device(unix.Major(rdev), unix.Minor(rdev))
	}
	st.Attr = attrsOfMac(raw.Flags)
}

func timeOf(ts unix.Timespec) tree.Time { return tree.Time{Sec: ts.Sec, Nsec: uint32(ts.Nsec)} }

// Entries reads the directory from its start and calls yield for every entry but "." and "..". name is valid only until
// yield returns; typ and ino are always 0, since they are not available without cgo. An error of yield ends the walk
// and is returned.
func (d *Dir) Entries(buf []byte, yield func(name []byte, typ tree.Type, ino uint64) error) error {
	fd := -1
	err := d.ioctx.do(iopolicy.Metadata, func() (err error) {
		fd, err = openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC) // with its own position
		return err
	})
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	for {
		grant, err := d.ioctx.begin(iopolicy.Metadata, 0)
		if err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		names, err := dir.Readdirnames(512)
		grant.End(0)
		for _, name := range names {
			buf = append(buf[:0], name...)
			if err := yield(buf, 0, 0); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
	}
}

// bypassCache makes reads of a large file use cached pages and leave no new ones.
func bypassCache(fd int, size int64) bool {
	if size <= smallFile {
		return true
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_NOCACHE, 1)
	return err == nil
}

// pages is unknown on macOS without mapping the file.
func (f *File) pages(int64, int64) (held, dirty uint64, known bool) { return 0, 0, false }

// within is inside of this system.
func within(dirfd int, call func() error) error { return inside(unix.PthreadFchdir, dirfd, call) }

// attributes reads or sets attributes of the object by the getattrlist family, which the library does not cover. The
// numbers have never changed.
func (o *object) attributes(set bool, common uint32, buf []byte) error {
	return o.attributeList(set, &unix.Attrlist{Bitmapcount: unix.ATTR_BIT_MAP_COUNT, Commonattr: common}, buf)
}

// volume gets attributes of the volume that holds the object.
func (o *object) volume(attrs uint32, buf []byte) error {
	return o.attributeList(false, &unix.Attrlist{Bitmapcount: unix.ATTR_BIT_MAP_COUNT, Volattr: attrs}, buf)
}

func (o *object) attributeList(set bool, list *unix.Attrlist, buf []byte) error {
	data := unsafe.Pointer(unsafe.SliceData(buf))
	if o.name == "" {
		trap := uintptr(unix.SYS_FGETATTRLIST)
		if set {
			trap = unix.SYS_FSETATTRLIST
		}
		return retry(func() error {
			_, _, errno := unix.Syscall6(trap, uintptr(o.fd), uintptr(unsafe.Pointer(list)), uintptr(data),
				uintptr(len(buf)), 0, 0)
			return errnoOrNil(errno)
		})
	}
	name, err := unix.BytePtrFromString(o.name)
	if err != nil {
		return err
	}
	trap := uintptr(unix.SYS_GETATTRLISTAT)
	if set {
		trap = unix.SYS_SETATTRLISTAT
	}
	return retry(func() error {
		_, _, errno := unix.Syscall6(trap, uintptr(o.fd), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(list)),
			uintptr(data), uintptr(len(buf)), unix.FSOPT_NOFOLLOW)
		return errnoOrNil(errno)
	})
}
