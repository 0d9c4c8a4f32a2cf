package machinestate

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// Host is this machine.
type Host struct {
	supplies string // folder of the power supplies in sysfs
	labels   string // folder with a link to the device of each file system label
	bus      string // address of the system bus
	mounts   func() ([]localfs.Mount, error)
	retry    time.Duration // pause before a lost bus is connected again

	mu    sync.Mutex
	delay *os.File // while it is open, the machine waits before it sleeps; nil: it does not
}

// New returns this machine.
func New() *Host {
	h := &Host{
		supplies: "/sys/class/power_supply", labels: "/dev/disk/by-label", bus: "unix:path=/run/dbus/system_bus_socket",
		mounts: localfs.Mounts, retry: time.Minute,
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

// Mounted returns where the file system with a label is mounted. Of several places it prefers one that shows the whole
// file system.
func (h *Host) Mounted(label string) (path string, ok bool) {
	device := h.labelled(label)
	if device == "" {
		return "", false
	}
	all, err := h.mounts()
	if err != nil {
		return "", false
	}
	for _, m := range all {
		source, err := filepath.EvalSymlinks(m.Source)
		if err != nil || source != device {
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

// labelled returns the device of the file system with a label, "" if there is none. udev writes the characters of a
// label that may not stand in a file name as \xNN.
func (h *Host) labelled(label string) string {
	entries, err := os.ReadDir(h.labels)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if unescapeLabel(e.Name()) != label {
			continue
		}
		if device, err := filepath.EvalSymlinks(filepath.Join(h.labels, e.Name())); err == nil {
			return device
		}
	}
	return ""
}

func unescapeLabel(name string) string {
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
