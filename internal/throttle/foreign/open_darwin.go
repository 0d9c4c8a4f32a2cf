package foreign

import (
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// open returns the detector of a device; nil where there are no counters, with the reason.
func open(info device.Info, opt Options) (detector, string) {
	opt, only, none := planOfMac(info.Medium, opt)
	if none != "" {
		return nil, none
	}
	d, err := diskwatch.OpenDisks(opt.Stats...)
	if err != nil {
		return nil, unreadable(err)
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
