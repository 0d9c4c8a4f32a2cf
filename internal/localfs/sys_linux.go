package localfs

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// nameBuf holds a name with its final NUL on the caller's stack. CIFS, NTFS and VFAT have names longer than 255 bytes,
// since they count UTF-16 units.
type nameBuf [264]byte

// pointer copies name, which must not contain NUL, and returns its address.
func (b *nameBuf) pointer(name string) *byte {
	if len(name) < len(b) {
		copy(b[:], name)
		b[len(name)] = 0
		return &b[0]
	}
	long := make([]byte, len(name)+1)
	copy(long, name)
	return &long[0]
}

const (
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_SYNC_AS_STAT
	statMask  = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
)

func (d *Dir) lstat(name string, st *Stat) error { return d.host.lstat(d.fd, name, st) }

func (h *host) lstat(dirfd int, name string, st *Stat) error {
	if !h.noStatx.Load() {
		var buf nameBuf
		errno := statx(dirfd, buf.pointer(name), statFlags, st)
		if errno == 0 {
			return nil
		}
		// Old container runtimes return EPERM for unknown calls; a stat never does.
		if errno != unix.ENOSYS && errno != unix.EPERM {
			return errno
		}
	}
	var old unix.Stat_t
	err := retry(func() error { return unix.Fstatat(dirfd, name, &old, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) })
	if err != nil {
		return err
	}
	h.noStatx.Store(true)
	fromStat(&old, st)
	return nil
}

func fstat(fd int, st *Stat) error {
	var empty nameBuf
	errno := statx(fd, &empty[0], unix.AT_EMPTY_PATH|unix.AT_STATX_SYNC_AS_STAT, st)
	if errno == 0 {
		return nil
	}
	if errno != unix.ENOSYS && errno != unix.EPERM {
		return errno
	}
	var old unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &old) }); err != nil {
		return err
	}
	fromStat(&old, st)
	return nil
}

// statx makes the system call itself, because the wrapper of the library copies the name to the heap.
func statx(dirfd int, name *byte, flags int, st *Stat) unix.Errno {
	var sx unix.Statx_t
	_, errno := uninterrupted(func() (uintptr, uintptr, unix.Errno) {
		return unix.Syscall6(unix.SYS_STATX, uintptr(dirfd), uintptr(unsafe.Pointer(name)), uintptr(flags),
			statMask, uintptr(unsafe.Pointer(&sx)), 0)
	})
	if errno != 0 {
		return errno
	}
	*st = Stat{
		Type: typeOfMode(uint32(sx.Mode)), Mode: uint32(sx.Mode) & 0o7777,
		UID: sx.Uid, GID: sx.Gid,
		Ino: sx.Ino, Dev: device(sx.Dev_major, sx.Dev_minor), Links: uint64(sx.Nlink),
		Size: sx.Size, Blocks512: sx.Blocks,
		Rdev:  device(sx.Rdev_major, sx.Rdev_minor),
		Mtime: tree.Time{Sec: sx.Mtime.Sec, Nsec: sx.Mtime.Nsec},
		Ctime: tree.Time{Sec: sx.Ctime.Sec, Nsec: sx.Ctime.Nsec},
		Atime: tree.Time{Sec: sx.Atime.Sec, Nsec: sx.Atime.Nsec},
		Birth: tree.Time{Sec: UnknownTime},
		Attr:  sx.Attributes & sx.Attributes_mask,
	}
	if sx.Mask&unix.STATX_BTIME != 0 {
		st.Birth = tree.Time{Sec: sx.Btime.Sec, Nsec: sx.Btime.Nsec}
	}
	if sx.Mask&unix.STATX_MNT_ID != 0 {
		st.MountID = sx.Mnt_id
	}
	return 0
}

// fromStat translates the status of kernels before 4.11. 32-bit machines need the conversions.
func fromStat(old *unix.Stat_t, st *Stat) {
	*st = Stat{
		Type: typeOfMode(old.Mode), Mode: old.Mode & 0o7777,
		UID: old.Uid, GID: old.Gid,
		Ino: uint64(old.Ino), Links: uint64(old.Nlink), Size: uint64(old.Size), Blocks512: uint64(old.Blocks),
		Dev:   device(unix.Major(uint64(old.Dev)), unix.Minor(uint64(old.Dev))),
		Rdev:  device(unix.Major(uint64(old.Rdev)), unix.Minor(uint64(old.Rdev))),
		Mtime: timeOf(old.Mtim), Ctime: timeOf(old.Ctim), Atime: timeOf(old.Atim),
		Birth: tree.Time{Sec: UnknownTime},
	}
}

func timeOf(ts unix.Timespec) tree.Time {
	sec, nsec := ts.Unix()
	return tree.Time{Sec: sec, Nsec: uint32(nsec)}
}

// minDirBuf is the smallest useful buffer: an entry needs up to 280 bytes, more with the long names of CIFS.
const minDirBuf = 4096

// Entries reads the directory from its start and calls yield for every entry but "." and "..", in the order of the file
// system. name points into buf (32 KiB or more) and is valid only until yield returns; typ is 0 if unknown. An error of
// yield ends the walk and is returned. Only one Entries may run at a time.
func (d *Dir) Entries(buf []byte, yield func(name []byte, typ tree.Type, ino uint64) error) error {
	// Also at the start: btrfs lists the entries of the time of the last open or rewind.
	if err := retry(func() error { _, err := unix.Seek(d.fd, 0, 0); return err }); err != nil {
		return fmt.Errorf("rewind directory: %w", err)
	}
	if len(buf) < minDirBuf {
		buf = make([]byte, 8*minDirBuf)
	}
	for {
		var n int
		err := d.ioctx.do(iopolicy.Metadata, func() (err error) {
			n, err = unix.Getdents(d.fd, buf)
			return err
		})
		if err == unix.ENOENT && d.removed() {
			return nil // it has no entries any more
		}
		if err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		if n == 0 {
			return nil
		}
		if err := eachEntry(buf[:n], yield); err != nil {
			return err
		}
	}
}

// removed reports whether d was removed while open. FUSE file systems return ENOENT for other reasons too.
func (d *Dir) removed() bool {
	st, err := d.Fstat()
	return err == nil && st.Links == 0
}

// Offsets in struct linux_dirent64.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

func eachEntry(buf []byte, yield func(name []byte, typ tree.Type, ino uint64) error) error {
	for len(buf) >= direntName {
		size := int(binary.NativeEndian.Uint16(buf[direntReclen:]))
		if size < direntName || size > len(buf) {
			return fmt.Errorf("read directory: entry of %d bytes in a buffer of %d", size, len(buf))
		}
		entry := buf[:size]
		buf = buf[size:]
		name := entry[direntName:]
		for i, c := range name {
			if c == 0 {
				name = name[:i]
				break
			}
		}
		if len(name) == 0 || name[0] == '.' && (len(name) == 1 || len(name) == 2 && name[1] == '.') {
			continue
		}
		if err := yield(name, typeOfDirent(entry[direntType]), binary.NativeEndian.Uint64(entry)); err != nil {
			return err
		}
	}
	return nil
}

func typeOfDirent(t byte) tree.Type {
	return typeOfMode(uint32(t) << 12) // IFTODT of <dirent.h>: the two enumerations are the same
}

// bypassCache is false: uncached and drop keep the pages away.
func bypassCache(int, int64) bool { return false }

// pages counts the cached pages of a range, and those of them that are not on disk yet; false where the kernel does not
// report them.
func (f *File) pages(off, n int64) (held, dirty uint64, known bool) {
	if f.host.noCacheStat.Load() {
		return 0, 0, false
	}
	held, dirty, err := pages.Cached(f.fd, off, n)
	if err == unix.ENOSYS {
		f.host.noCacheStat.Store(true)
	}
	return held, dirty, err == nil
}
