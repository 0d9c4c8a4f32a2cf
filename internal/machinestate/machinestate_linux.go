package machinestate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// Host is this machine.
type Host struct {
	supplies string // folder of the power supplies in sysfs
	disks    string // folder with the folders by-label and by-uuid, which link to devices
	bus      string // address of the system bus
	mounts   func() ([]localfs.Mount, error)
	named    func(path, by, name string) bool // whether the file system of a path has a label or UUID
	retry    time.Duration                    // pause before a lost bus is connected again

	mu    sync.Mutex
	delay *os.File // while it is open, the machine waits before it sleeps; nil: it does not
}

// New returns this machine.
func New() *Host {
	h := &Host{
		supplies: "/sys/class/power_supply", disks: "/dev/disk", bus: "unix:path=/run/dbus/system_bus_socket",
		mounts: localfs.Mounts, named: askName, retry: time.Minute,
	}
	if address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); address != "" {
		h.bus = address
	}
	return h
}

// Power returns the state of power supply and network.
func (h *Host) Power(ctx context.Context) Power {
	p := h.supply()
	p.Metered = h.metered(ctx)
	return p
}

// Mounted returns where the file system with a label or UUID is mounted; by is "LABEL" or "UUID". Of several places it
// prefers one that shows the whole file system. udev keeps links to the devices; where it does not run, as in a
// container, the mounted file systems are asked.
func (h *Host) Mounted(by, name string) (path string, ok bool) {
	all, err := h.mounts()
	if err != nil || name == "" {
		return "", false
	}
	device := h.device(by, name)
	for _, m := range all {
		if device != "" {
			if source, err := filepath.EvalSymlinks(m.Source); err != nil || source != device {
				continue
			}
		} else if !strings.HasPrefix(m.Source, "/dev/") || strings.HasPrefix(m.Type, "fuse") || // it may not answer
			!h.named(m.Path, by, name) {
			continue
		}
		if m.Local {
			return m.Path, true
		}
		if !ok {
			path, ok = m.Path, true
		}
	}
	return path, ok
}

// device returns the device of the file system with a label or UUID, "" if udev has no link to it. udev writes the
// characters that may not stand in a file name as \xNN.
func (h *Host) device(by, name string) string {
	folder := filepath.Join(h.disks, "by-"+strings.ToLower(by))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if is := UnescapeLabel(e.Name()); is != name && (by != "UUID" || !strings.EqualFold(is, name)) {
			continue
		}
		if device, err := filepath.EvalSymlinks(filepath.Join(folder, e.Name())); err == nil {
			return device
		}
	}
	return ""
}

// Of linux/fs.h: requests for the label, a text of at most 256 bytes, and for the UUID, a length and 16 bytes.
const (
	getLabel = 0x81009431
	getUUID  = 0x80111500
)

// askName asks the file system of a path whether it has a label or UUID. Not every file system answers.
func askName(path, by, name string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	request, answer := uintptr(getLabel), [256]byte{}
	if by == "UUID" {
		request = getUUID
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&answer))); errno != 0 {
		return false
	}
	if by != "UUID" {
		return unix.ByteSliceToString(answer[:]) == name
	}
	u := answer[1:17]
	return strings.EqualFold(name, fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
}

// UnescapeLabel returns the label or UUID for which udev named a link.
func UnescapeLabel(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if strings.HasPrefix(name[i:], `\x`) && i+4 <= len(name) {
			if n, err := strconv.ParseUint(name[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// Changes returns a channel that gets a value when the mounts, the power supply or the network changed since the last
// value was received. Without a system bus, only mounts are reported. It sends nothing after ctx has ended.
func (h *Host) Changes(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go watchMounts(ctx, changes)
	go h.watchBus(ctx, func(ctx context.Context) { h.relayProperties(ctx, changes) })
	return changes
}

// watchMounts reports each change of the mount table until ctx ends. The kernel reports it once to each open file, as
// an exceptional condition. The file is not opened by os.Open: the poller of the runtime would take these reports.
func watchMounts(ctx context.Context, changes chan<- struct{}) {
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(table)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return
	}
	defer unix.Close(ends[0])
	var once sync.Once
	end := func() { once.Do(func() { unix.Close(ends[1]) }) }
	defer end()
	defer context.AfterFunc(ctx, end)()
	for {
		ready := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(ends[0]), Events: unix.POLLIN}}
		_, err := unix.Poll(ready, -1)
		switch {
		case err == unix.EINTR:
		case err != nil || ready[1].Revents != 0:
			return
		default:
			signal(changes)
		}
	}
}
