package localfs

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/disk"
	"github.com/tidemark-backup/tidemark/internal/localfs/nodev"
)

// host is what was learned about the running kernel: which calls it does not have, and the way to our descriptors. One
// per OpenDir, shared by the directories opened below, closed with the last of them.
type host struct {
	refs        atomic.Int32
	noStatx     atomic.Bool
	noXattrAt   atomic.Bool
	noCacheStat atomic.Bool
	keeps       atomic.Uint64 // 1 + number of the file system last found to leave in memory what was read
	waits       atomic.Uint64 // 1 + number of the one last found to block whoever reads, whatever is asked
	async       atomic.Uint64 // 1 + number of the one last found not to
	direct      disk.Systems
	unplaced    atomic.Uint64 // 1 + number of the one last found not to tell where content lies
	privileged  bool          // may open device nodes of every owner
	calm        nodev.Mounts  // where no device can be opened
	procOnce    sync.Once
	proc        int // O_PATH descriptor of /proc/self/fd, -1 where there is none
}

func newHost() *host { return &host{privileged: unix.Geteuid() == 0, proc: -1} }

func (h *host) retain() { h.refs.Add(1) }

func (h *host) release() {
	if h.refs.Add(-1) == 0 && h.proc >= 0 {
		_ = unix.Close(h.proc)
	}
}

// hasProc tells whether /proc/self/fd leads to our descriptors, by means of fd, one of them: /proc may be missing in a
// chroot, or be that of another process namespace.
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

// procPath is a path that leads to the entry name of the directory fd, or to fd itself when name is empty, with no
// other lookup than the one of that name. It serves the calls that have no variant relative to a directory.
func procPath(fd int, name string) string {
	p := append(make([]byte, 0, 32+len(name)), "/proc/self/fd/"...)
	p = strconv.AppendInt(p, int64(fd), 10)
	if name != "" {
		p = append(append(p, '/'), name...)
	}
	return string(p)
}

// passThrough opens a directory for looking up names in it, for which no right to read it is needed.
const passThrough = unix.O_PATH

// openat opens, again after EINTR. It is the raw call, because the wrapper of the library copies the name to the heap.
func openat(dirfd int, name string, flags int) (int, error) {
	var buf nameBuf
	path := buf.pointer(name)
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(path)),
			uintptr(flags|unix.O_LARGEFILE), 0, 0, 0)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

// openRead opens for reading, without touching the access time where we may.
func (d *Dir) openRead(name string, flags int) (int, error) { return d.openReadAt(d.fd, name, flags) }

func (d *Dir) openReadAt(dirfd int, name string, flags int) (int, error) {
	if !d.noAtime.Load() {
		fd, err := openat(dirfd, name, flags|unix.O_NOATIME)
		if err != unix.EPERM {
			return fd, err
		}
		d.noAtime.Store(true) // only the owner of a file may ask for it
	}
	return openat(dirfd, name, flags)
}

// openRegular opens the regular file name and fills st. With O_NONBLOCK opening is harmless for everything but a device
// whose driver acts on it (a watchdog starts counting, a tape rewinds). Where a device node could have been put in the
// file's place since it was looked at, the entry is therefore pinned first, at the price of two more calls.
func (d *Dir) openRegular(name string, st *Stat) (int, error) {
	if d.mayHoldDevices() && d.host.hasProc(d.fd) {
		return d.openPinned(name, unix.O_RDONLY, st)
	}
	fd, err := d.openRead(name, harmless)
	if err == unix.EAGAIN {
		// Somebody holds a lease on the file, a file server mostly: with O_NONBLOCK the kernel refuses, without it it
		// breaks the lease first, which takes at most the seconds of /proc/sys/fs/lease-break-time.
		return d.openPinned(name, unix.O_RDONLY, st)
	}
	return checked(fd, err, st)
}

// harmless are the flags with which something can be opened of which it is not known what it is.
const harmless = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// checked returns fd, unless opening it failed with err or it is no regular file, and fills st.
func checked(fd int, err error, st *Stat) (int, error) {
	if err != nil {
		return -1, err
	}
	if err := fstatRegular(fd, st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openKnown is openRegular of a file that was looked at before. Where openRegular would pin the entry, it is opened where
// no device can be, which takes one call instead of three. A name may mean something else there, a file on which another
// is mounted, and nothing that is special is meant to be opened: only what is the very file that was looked at is taken,
// and of everything else, errors too, openRegular says what it is.
//
// If so much is known that one look after the file was read tells whether it is the same and has not changed, nobody looks
// at it before: then it is presumed, and st is what was known.
func (d *Dir) openKnown(name string, known Known, st *Stat) (fd int, presumed bool, err error) {
	presumed = known.Times && d.host.keeps.Load() != 1+known.Dev
	if known.Ino == 0 || !d.mayHoldDevices() {
		if presumed && known.Ino != 0 {
			if fd, err = d.openRead(name, harmless); err == nil {
				*st = known.stat()
				return fd, true, nil
			}
		}
		fd, err = d.openRegular(name, st)
		return fd, false, err
	}
	if fd, err = d.again.OpenFile(&d.host.calm, d.fd, name); err == nil && presumed {
		*st = known.stat()
		return fd, true, nil
	}
	if fd, err = checked(fd, err, st); err == nil {
		if st.Dev == known.Dev && st.Ino == known.Ino {
			return fd, false, nil
		}
		_ = unix.Close(fd)
	}
	fd, ordinary := d.openRegular(name, st)
	if err != nil && ordinary == nil && !errors.Is(err, nodev.ErrMissing) {
		d.again.Avoid() // a security module knows no such mounts, or something like that
	}
	return fd, false, ordinary
}

// States of Dir.devices.
const (
	devicesUnknown = iota
	devicesNever   // the mount is nodev, or the kernel would not let us open one
	devicesMaybe
)

// mayHoldDevices reports whether a device node in this directory could be opened by us at all. Asked once per directory
// from which files are read.
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

// openPinned holds the entry with O_PATH, which opens nothing, makes sure that it is a regular file, and only then opens
// exactly that object.
func (d *Dir) openPinned(name string, access int, st *Stat) (int, error) {
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
	if access == unix.O_RDONLY {
		return d.openReadAt(d.host.proc, link.of(pin), access|unix.O_CLOEXEC)
	}
	return openat(d.host.proc, link.of(pin), access|unix.O_CLOEXEC)
}

// openForWriting opens an existing regular file for reading and writing.
func (d *Dir) openForWriting(name string) (int, error) {
	var st Stat
	if d.host.hasProc(d.fd) {
		return d.openPinned(name, unix.O_RDWR, &st)
	}
	fd, err := openat(d.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY)
	return checked(fd, err, &st)
}

// fdName holds the name of a descriptor in /proc/self/fd, without going to the heap.
type fdName [20]byte

func (b *fdName) of(fd int) string {
	digits := strconv.AppendInt(b[:0], int64(fd), 10)
	return unsafe.String(&digits[0], len(digits))
}
