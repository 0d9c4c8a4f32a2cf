package foreign

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// Options describe a device and its users. The functions are called within Look, while the gate is locked, and must not
// call a gate.
type Options struct {
	diskwatch.Options        // Touches and Elsewhere; Served, of disks; the rest is set by Watch
	Proc              string // the proc file system with the counters of the mount; "": /proc
	// Cooperating returns the cooperating processes: each has a gate of its own for the same device. Nil: none.
	Cooperating func() []shared.Process
	// OnDevice is for TopProcesses only. Nil: every process may use the device.
	OnDevice OnDevice
}

// Watcher detects foreign I/O on one device. It implements iopolicy.Watcher and iopolicy.GapRequester. It is safe for
// concurrent use, except TopProcesses.
type Watcher struct {
	counters
	interval time.Duration
	top      topProcesses
}

var _ iopolicy.GapRequester = (*Watcher)(nil)

// counters are those of a device, safe for concurrent use.
type counters interface {
	Look(m iopolicy.Moment) iopolicy.Sighting
	NeedsGaps() (every, length time.Duration)
	// Mode returns how much is seen, and one sentence why not more; "" if there is no reason.
	Mode() (diskwatch.Mode, string)
	// Foreign returns the bytes known to be foreign so far.
	Foreign() uint64
	Close()
}

// blind is a device without counters, and why.
type blind string

func (blind) Look(iopolicy.Moment) (s iopolicy.Sighting) { return s }
func (blind) NeedsGaps() (every, length time.Duration)   { return 0, 0 }
func (b blind) Mode() (diskwatch.Mode, string)           { return diskwatch.Blind, string(b) }
func (blind) Foreign() uint64                            { return 0 }
func (blind) Close()                                     {}

// Watch starts to watch a device. There must be no own I/O meanwhile. Without counters the Watcher is Blind.
func Watch(info device.Info, opt Options) *Watcher {
	w := &Watcher{interval: interval(info.Medium), top: topProcesses{onDevice: opt.OnDevice}}
	if w.counters = blind("The data is in memory, so no program waits for a device."); info.Medium != device.Memory {
		w.counters = open(info, opt)
	}
	if d, ok := w.counters.(*diskwatch.Watcher); ok {
		w.interval = d.Interval()
	}
	return w
}

// openDisks watches the disks of a device.
func openDisks(info device.Info, opt Options) counters {
	var stats []string
	for _, leaf := range info.Leaves {
		if name := leaf.Stats(); name != "" {
			stats = append(stats, name)
		}
	}
	d, err := diskwatch.OpenDisks(stats...)
	if err != nil {
		return unreadable(err)
	}
	disks := opt.Options
	disks.Interval, disks.FS = interval(info.Medium), info.FS
	if info.Indirect {
		disks.GapsOnly = "Another process reads the device for this one"
	}
	if opt.Cooperating != nil {
		disks.Peers = newPeerProcesses(opt.Cooperating)
	}
	w, err := diskwatch.New(d, disks)
	if err != nil {
		return unreadable(err)
	}
	return w
}

func unreadable(err error) counters {
	return blind("The statistics of the device cannot be read: " + err.Error() + ".")
}

// interval is the least time between two polls. One costs some 4 µs: below 0.1 % of a processor at 5 ms. A rotational
// disk needs as long for one access as an SSD for a hundred, so polling it more often gains nothing.
func interval(m device.Medium) time.Duration {
	switch m {
	case device.SSD, device.Memory:
		return 5 * time.Millisecond
	case device.Remote:
		return 50 * time.Millisecond
	case device.HDD, device.Unknown:
	}
	return 20 * time.Millisecond
}

// Interval returns the least time between two polls.
func (w *Watcher) Interval() time.Duration { return w.interval }

// TopProcesses returns the processes with most I/O since the previous call; see topProcesses.update. It scans all
// processes, some 10 µs for each. One goroutine at a time may call it.
func (w *Watcher) TopProcesses() []report.Process { return w.top.update(w.Foreign(), hostTable()) }
