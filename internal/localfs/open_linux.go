package localfs

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// host caches facts about the running kernel: missing system calls, and the way to our descriptors. The directories
// below one OpenDir share it; the last one closes it.
type host struct {
	refs        atomic.Int32
	noStatx     atomic.Bool
	noXattrAt   atomic.Bool
	noCacheStat atomic.Bool
	noUncached  atomic.Uint64 // 1 + device number of the last file system that refused RWF_DONTCACHE
	blocking    atomic.Uint64 // 1 + device number of the last one whose reads block
	nonBlocking atomic.Uint64 // 1 + device number of the last one whose reads do not
	noPositions atomic.Uint64 // 1 + device number of the last one without positions
	privileged  bool          // may open device nodes of every owner
	noDev       noDevMounts   // mount copies without devices
	moving      sync.Mutex    // held by moveChecked, which is not atomic
	procOnce    sync.Once
	proc        int // O_PATH descriptor of /proc/self/fd, -1 without /proc
}

func newHost() *host { return &host{privileged: unix.Geteuid() == 0, proc: -1} }

func (h *host) retain() { h.refs.Add(1) }

func (h *host) release() {
	if h.refs.Add(-1) == 0 && h.proc >= 0 {
		_ = unix.Close(h.proc)
	}
}

// hasProc reports whether /proc/self/fd leads to our descriptors; fd is one of them. /proc may be missing in a chroot,
// or belong to another namespace.
func (h *host) hasProc(fd int) bool {
	h.procOnce.Do(func() {
		proc, err := openat(unix.AT_FDCWD, "/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
		if err != nil {
			return
		}
		var here, there unix.Stat_t
		err = retry(func() error { return unix.Fstat(fd, &here) })
		if err == nil {
			err = retry(func() error { return unix.Fstatat(proc, strconv.Itoa(fd), &there, 0) })
		}
		if err != nil || here.Dev != there.Dev || here.Ino != there.Ino {
			_ = unix.Close(proc)
			return
		}
		h.proc = proc
	})
	return h.proc >= 0
}

// procPath returns a path to the entry name of the directory fd, or to fd itself if name is empty, for calls without a
// directory argument.
func procPath(fd int, name string) string {
	p := append(make([]byte, 0, 32+len(name)), "/proc/self/fd/"...)
	p = strconv.AppendInt(p, int64(fd), 10)
	if name != "" {
		p = append(append(p, '/'), name...)
	}
	return string(p)
}

// searchOnly opens a directory for lookups, without the right to read it.
const searchOnly = unix.O_PATH

// openatMode makes the system call itself, because the wrapper of the library copies the name to the heap.
func openatMode(dirfd int, name string, flags int, mode uint32) (int, error) {
	var buf nameBuf
	path := buf.pointer(name)
	fd, errno := uninterrupted(func() (uintptr, uintptr, unix.Errno) {
		return unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(path)),
			uintptr(flags|unix.O_LARGEFILE), uintptr(mode), 0, 0)
	})
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// openat2 is openat with RESOLVE_ flags.
func openat2(dirfd int, name string, flags int, resolve uint64) (int, error) {
	var buf nameBuf
	path := buf.pointer(name)
	how := unix.OpenHow{Flags: uint64(flags | unix.O_LARGEFILE), Resolve: resolve}
	fd, errno := uninterrupted(func() (uintptr, uintptr, unix.Errno) {
		return unix.Syscall6(unix.SYS_OPENAT2, uintptr(dirfd), uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	})
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// openRead opens for reading, keeping the access time where permitted.
func (d *Dir) openRead(name string, flags int) (int, error) { return d.openReadAt(d.fd, name, flags) }

func (d *Dir) openReadAt(dirfd int, name string, flags int) (int, error) {
	if !d.noAtime.Load() {
		fd, err := openat(dirfd, name, flags|unix.O_NOATIME)
		if err != unix.EPERM {
			return fd, err
		}
		d.noAtime.Store(true) // only the owner of a file may request it
	}
	return openat(dirfd, name, flags)
}

// openRegular opens the regular file name and fills st. O_NONBLOCK makes this harmless except for devices whose driver
// acts on open (a watchdog starts, a tape rewinds). Where such a device could have taken the name, the entry is pinned
// first, which costs two more calls.
func (d *Dir) openRegular(name string, st *Stat) (int, error) {
	if d.mayHoldDevices() && d.host.hasProc(d.fd) {
		return d.openPinned(name, st)
	}
	fd, err := d.openRead(name, openUnknown)
	if err == unix.EAGAIN {
		// Another program, often a file server, holds a lease on the file. O_NONBLOCK makes the kernel refuse; without
		// it, the kernel breaks the lease within /proc/sys/fs/lease-break-time seconds.
		return d.openPinned(name, st)
	}
	return requireRegular(fd, err, st)
}

// openUnknown opens an object of unknown type without waiting.
const openUnknown = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// requireRegular returns fd and fills st, unless opening failed with err or it is not a regular file.
func requireRegular(fd int, err error, st *Stat) (int, error) {
	if err != nil {
		return -1, err
	}
	if err := fstatRegular(fd, st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openKnown is openRegular for a file that the scan has seen. Where openRegular would pin the entry, it opens the name
// in a copy of the mount without devices, by one call instead of three. There the name may lead to another object. Only
// the known file is accepted; for everything else, including errors, openRegular decides.
func (d *Dir) openKnown(name string, known Known, st *Stat) (int, error) {
	if known.Ino == 0 || !d.mayHoldDevices() {
		return d.openRegular(name, st)
	}
	fd, err := d.noDev.openFile(&d.host.noDev, d.fd, name, 0)
	if fd, err = requireRegular(fd, err, st); err == nil {
		if st.Dev == known.Dev && st.Ino == known.Ino {
			return fd, nil
		}
		_ = unix.Close(fd)
	}
	fd, ordinary := d.openRegular(name, st)
	if err != nil && ordinary == nil && !errors.Is(err, errNoCopy) {
		d.noDev.avoid() // for instance, a security module rejects such mounts
	}
	return fd, ordinary
}

// Values of Dir.devices.
const (
	devicesUnknown = iota
	devicesNever   // the mount is nodev, or we lack the privilege
	devicesMaybe
)

// mayHoldDevices reports whether we could open a device node in this directory. It asks the kernel once per directory.
func (d *Dir) mayHoldDevices() bool {
	if !d.host.privileged {
		return false
	}
	state := d.devices.Load()
	if state == devicesUnknown {
		var fs unix.Statfs_t
		err := retry(func() error { return unix.Fstatfs(d.fd, &fs) })
		state = devicesMaybe
		if err == nil && fs.Flags&unix.ST_NODEV != 0 {
			state = devicesNever
		}
		d.devices.Store(state)
	}
	return state == devicesMaybe
}

// openPinned holds the entry by O_PATH, which does not open it, requires a regular file, and then opens exactly that
// object.
func (d *Dir) openPinned(name string, st *Stat) (int, error) {
	pin, err := openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pin)
	if err := fstatRegular(pin, st); err != nil {
		return -1, err
	}
	if !d.host.hasProc(d.fd) {
		return -1, ErrNoProc
	}
	var link fdName
	return d.openReadAt(d.host.proc, link.of(pin), unix.O_RDONLY|unix.O_CLOEXEC)
}

// fdName holds the name of a descriptor in /proc/self/fd, without a heap allocation.
type fdName [20]byte

func (b *fdName) of(fd int) string {
	digits := strconv.AppendInt(b[:0], int64(fd), 10)
	return unsafe.String(&digits[0], len(digits))
}
