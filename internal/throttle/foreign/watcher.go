package foreign

import (
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options describe a device and its users. The functions are called within Look, while the gate is locked, and must not
// call a gate.
type Options struct {
	// Stats are the statistics files of the disks below, such as /sys/block/sda/stat; none for another machine.
	Stats []string
	// Mount is the source of a network mount in the mount table, "//server/share" or "server:/export".
	Mount string
	Proc  string // the proc file system with the counters of the mount; "": /proc
	// Elsewhere returns how many bytes of this process are proven to have gone to other devices. Nil: the process uses
	// this device only. If set, the gate must meter every operation (iopolicy.Metering.Attribute).
	Elsewhere func() iopolicy.Bytes
	// Touches: own reads may change access times, which the file system writes seconds later (no O_NOATIME).
	Touches bool
	// Peers returns the cooperating processes. Nil: none.
	Peers func() []Peer
	// Served receives after a poll the mean service time and size of the reads since the poll before. Nil: not called.
	Served func(each time.Duration, bytes int)
	// OnDevice is for TopProcesses only. Nil: every process may use the device.
	OnDevice OnDevice
}

// Mode is how much a Watcher can see.
type Mode uint8

// The modes.
const (
	Checking Mode = iota // as Exact, until own reads have been found on the device
	Exact                // foreign I/O is seen during own I/O
	Gaps                 // foreign I/O is seen only while no own operation is in flight
	Blind                // there are no counters
)

// String returns the word for m in reports.
func (m Mode) String() string {
	return [...]string{"checking", "exact", "gaps", "blind"}[m]
}

// Watcher detects foreign I/O on one device. It implements iopolicy.Watcher and iopolicy.GapRequester. It is safe for
// concurrent use.
type Watcher struct {
	interval time.Duration

	mu       sync.Mutex
	detector detector // nil: blind
	why      string
	scanning sync.Mutex
	top      topProcesses
	peers    func() []Peer
}

var _ iopolicy.GapRequester = (*Watcher)(nil)

// detector compares the counters of two polls.
type detector interface {
	poll(m iopolicy.Moment) iopolicy.Sighting
	// mode returns how much is seen, and one sentence why not more.
	mode() (Mode, string)
	// starved reports whether own I/O has hidden foreign I/O for starvedAfter.
	starved() bool
	// gapLength returns the length of forced gaps, given the usual one.
	gapLength(usual time.Duration) time.Duration
	// foreignBytes returns the bytes known to be foreign so far.
	foreignBytes() uint64
	close()
}

// Watch starts to watch a device. There must be no own I/O meanwhile. Without counters the Watcher is Blind.
func Watch(info device.Info, opt Options) *Watcher {
	w := &Watcher{interval: interval(info.Medium), peers: opt.Peers, top: topProcesses{onDevice: opt.OnDevice}}
	w.detector, w.why = open(info, opt)
	if d, ok := w.detector.(*diskDetector); ok {
		w.interval = d.interval
	}
	return w
}

// openDetector returns the detector of local disks with that source. only, if not empty, is why others are seen only
// in gaps.
func openDetector(src source, every time.Duration, info device.Info, opt Options, only string) (detector, string) {
	l, err := newDiskDetector(src, opt, every, info.FS)
	if err != nil {
		src.close()
		return nil, unreadable(err)
	}
	if info.Indirect {
		only = "Another process reads the device for this one"
	}
	if only != "" {
		l.calibration.gapsForever(only)
	}
	return l, ""
}

func unreadable(err error) string {
	return "The statistics of the device cannot be read: " + err.Error() + "."
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

// Look returns the foreign I/O since the previous call. It does not block.
func (w *Watcher) Look(m iopolicy.Moment) iopolicy.Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.detector == nil {
		return iopolicy.Sighting{}
	}
	return w.detector.poll(m)
}

// NeedsGaps implements iopolicy.GapRequester. Gaps take 5 % of the time at most. In mode Exact it requests one a
// second, and only after foreign I/O has been hidden for that long. While the device is busy in gaps, they become
// longer and rarer.
func (w *Watcher) NeedsGaps() (every, length time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.detector == nil {
		return 0, 0
	}
	length = w.detector.gapLength(max(w.interval, 5*time.Millisecond))
	every = 20 * length
	if mode, _ := w.detector.mode(); mode == Gaps {
		return max(200*time.Millisecond, every), length
	}
	if w.detector.starved() {
		return max(starvedAfter, every), length
	}
	return 0, 0
}

// starvedAfter is for how long foreign I/O may stay hidden before a gap is forced.
const starvedAfter = time.Second

// Mode returns how much is seen, and one sentence why not more; "" if there is no reason.
func (w *Watcher) Mode() (Mode, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.detector == nil {
		return Blind, w.why
	}
	return w.detector.mode()
}

// Close ends the watch. Later calls of Look see nothing.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.detector != nil {
		w.detector.close()
		w.detector, w.why = nil, "The watch was ended."
	}
}

// TopProcesses returns the processes with most I/O since the previous call; see topProcesses.update. It scans all
// processes, some 10 µs for each, at most once a second.
func (w *Watcher) TopProcesses() []TopProcess {
	w.mu.Lock()
	var foreignBytes uint64
	if w.detector != nil {
		foreignBytes = w.detector.foreignBytes()
	}
	w.mu.Unlock()
	w.scanning.Lock() // polls do not wait for a scan
	defer w.scanning.Unlock()
	var peers []Peer
	if w.peers != nil {
		peers = w.peers()
	}
	return w.top.update(time.Now(), foreignBytes, peers)
}
