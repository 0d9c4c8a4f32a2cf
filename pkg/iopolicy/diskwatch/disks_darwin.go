package diskwatch

import (
	"fmt"
	"os/exec"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"golang.org/x/sys/unix"
)

// Disks are the statistics of some disks, which IOKit keeps.
type Disks struct{ *ioDisks }

// OpenDisks opens the statistics of disks by their BSD names, such as disk0.
func OpenDisks(names ...string) (*Disks, error) {
	d, err := openIODisks(ioStats, time.Now, names...)
	if err != nil {
		return nil, err
	}
	return &Disks{d}, nil
}

// ioStats asks IOKit for the sums of all disks.
func ioStats() (map[string]ioStat, error) {
	all, err := disk.IOCounters()
	if err != nil {
		return nil, err
	}
	sums := make(map[string]ioStat, len(all))
	for name, one := range all {
		sums[name] = ioStat{one.ReadBytes, one.WriteBytes, one.ReadCount, one.WriteCount,
			time.Duration(one.IoTime) * time.Millisecond}
	}
	return sums, nil
}

// Close does nothing: IOKit has nothing to close.
func (d *Disks) Close() {}

func (d *Disks) count() int { return len(d.names) }

func (d *Disks) self() Process { return Self() }

// cancelled returns 0: own writes are counted when they are submitted.
func (d *Disks) cancelled() uint64 { return 0 }

// Self returns the counters of this process.
func Self() Process {
	own, _ := ownIO()
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		u = unix.Rusage{}
	}
	return Process{Read: own.Read, Dirtied: own.Written, Faults: uint64(u.Majflt)}
}

// Stores returns the disks below what a file system was mounted from, such as /dev/disk3s5. It runs diskutil, which
// takes some tenths of a second. The error is ErrNoDisk for what is no disk.
func Stores(from string) ([]Store, error) {
	device := deviceOf(from)
	if device == "" {
		return nil, ErrNoDisk
	}
	return storesBelow(device, func(device string) ([]byte, error) {
		out, err := exec.Command("/usr/sbin/diskutil", "info", "-plist", device).Output()
		if err != nil {
			return nil, fmt.Errorf("diskutil info %s: %w", device, err)
		}
		return out, nil
	})
}

// Watch watches the disk that holds a path. The error is ErrNoDisk for file systems of other machines. OpenDisks and
// New watch several.
func Watch(path string) (*Watcher, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return nil, fmt.Errorf("find the disk of %s: %w", path, err)
	}
	stores, err := Stores(unix.ByteSliceToString(st.Mntfromname[:]))
	if err != nil {
		return nil, fmt.Errorf("find the disk of %s: %w", path, err)
	}
	var names []string
	for _, s := range stores {
		names = append(names, s.Name)
	}
	d, err := OpenDisks(names...)
	if err != nil {
		return nil, fmt.Errorf("watch the disk of %s: %w", path, err)
	}
	return New(d, Options{})
}
