package foreign

import (
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// open returns the detector of a device; nil where there are no counters, with the reason.
func open(info device.Info, opt Options) (detector, string) {
	switch info.Medium {
	case device.Memory:
		return nil, "The data is in memory, so no program waits for a device."
	case device.Remote:
		return nil, "What others on this machine do at the server cannot be seen."
	case device.Unknown, device.SSD, device.HDD:
	}
	d, err := diskwatch.OpenDisks(opt.Stats...)
	if err != nil {
		return nil, unreadable(err)
	}
	only := ""
	if opt.Elsewhere != nil { // what an operation is charged with may be for another one
		only, opt.Elsewhere = "macOS counts the I/O of a process, not of a thread, and this one uses several devices", nil
	}
	return openDetector(disks{d}, d.Pace(interval(info.Medium)), info, opt, only)
}

// disks are IOKit's statistics of the disks below, and of this process.
type disks struct{ *diskwatch.Disks }

func (d disks) device() (diskwatch.Counters, error) { return d.Counters() }

func (d disks) own() diskwatch.Process { return diskwatch.Self() }

// cancelled returns 0: own writes are counted when they are submitted.
func (d disks) cancelled() uint64 { return 0 }

func (d disks) close() { d.Close() }

// Idle returns nil: when the user was last there cannot be known without cgo.
func Idle() func() bool { return nil }
