package pressure

import (
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/pressure/others"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options say what the caller knows of a device and of its own process.
type Options struct {
	// Stats are the files with the statistics of the whole disks below: /sys/block/sda/stat. Sums are compared. For
	// another machine there are none.
	Stats []string
	// Elsewhere returns how many bytes of this process are proven to have gone to other devices. Nil: the process uses
	// this device only. If set, the gate must meter every operation (iopolicy.Config.Attribute).
	Elsewhere func() iopolicy.Bytes
	// Syncs returns how many operations of kind Sync of this process are at the device, and how many have begun so far.
	// Nil: not known; then every own write may be one, and others' writes are not seen beside it. It is called within
	// Look and must not wait for the gate.
	Syncs func() (inflight int, begun uint64)
	// Peers returns the cooperating processes of this moment. It is called at every look and must be cheap. Nil: none.
	Peers func() []Peer
	// Touches: own reads may change access times, because files are opened without O_NOATIME on a file system that
	// keeps them. Those changes are written seconds later and must not be taken for somebody else's.
	Touches bool
	// Mount is the source of a network mount as the mount table names it, "//server/share" or "server:/export".
	Mount string
	// Ledger returns what this process has moved to and from a network mount, as its callers told.
	Ledger func() iopolicy.Bytes
	// Here tells whether a file that somebody has open lies on this device, by the number of its file system or block
	// device, for Blame only. Nil: not known, and everybody is taken to work here.
	Here Here
}

// Peer is a cooperating process.
type Peer = others.Peer

// Culprit is somebody who has used a device.
type Culprit = others.Culprit

// Here tells whether a device number belongs to a device.
type Here = others.Here

// Mode tells how much a Watcher can see.
type Mode uint8

// The modes.
const (
	Checking Mode = iota // works as Exact, while it is not yet proven that device and process agree
	Exact                // others are seen while own I/O goes on
	Gaps                 // others are seen only while nothing of our own is at the device: see iopolicy.Gapper
	Blind                // nothing is seen
)

// String returns the word for m in reports.
func (m Mode) String() string {
	return [...]string{"checking", "exact", "gaps", "blind"}[m]
}

// Watcher sees foreign I/O on one device. It implements iopolicy.Watcher and iopolicy.Gapper. It is safe for concurrent use.
type Watcher struct {
	interval time.Duration

	mu      sync.Mutex
	judge   judge // nil: blind
	why     string
	blaming sync.Mutex
	blame   others.Blamer
	peers   func() []Peer
}

var _ iopolicy.Gapper = (*Watcher)(nil)

// judge compares what was read at a look with what was read before.
type judge interface {
	look(m iopolicy.Moment) iopolicy.Sighting
	// mode tells how well it sees, and in a sentence why not better.
	mode() (Mode, string)
	// dim tells whether own I/O has hidden others for long.
	dim() bool
	// pause returns how long a gap that is made on purpose must be, if that is usual.
	pause(usual time.Duration) time.Duration
	// strange returns the bytes that others have moved so far, as far as is known.
	strange() uint64
	close()
}

// Watch begins to watch the device of info. There must be no own I/O at the device meanwhile. That nothing can be seen is
// no error: the Watcher is Blind and tells why.
func Watch(info device.Info, opt Options) *Watcher {
	w := &Watcher{interval: interval(info.Medium), peers: opt.Peers, blame: others.Blamer{Here: opt.Here}}
	w.judge, w.why = open(info, opt)
	return w
}

// interval is how far apart looks are at least. A look costs some 3 us: at 5 ms below 0.1 % of a CPU. A disk that turns
// needs as much for one access as an SSD for a hundred, so that nothing is gained by looking more often.
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

// Interval returns how far apart looks should be at least.
func (w *Watcher) Interval() time.Duration { return w.interval }

// Look compares the device with m and returns what others did since the last look. It does not wait.
func (w *Watcher) Look(m iopolicy.Moment) iopolicy.Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.judge == nil {
		return iopolicy.Sighting{}
	}
	return w.judge.look(m)
}

// NeedsGaps implements iopolicy.Gapper. It takes 5 % of the time at most. Where not only gaps count it asks for one a second,
// and only after own requests have been at the device for that long without a pause, so that few reads of others can hide
// behind what read-ahead has on its way. While the device is not idle in them, gaps get longer and fewer.
func (w *Watcher) NeedsGaps() (every, length time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.judge == nil {
		return 0, 0
	}
	length = w.judge.pause(max(w.interval, 5*time.Millisecond))
	every = 20 * length
	if mode, _ := w.judge.mode(); mode == Gaps {
		return max(200*time.Millisecond, every), length
	}
	if w.judge.dim() {
		return max(dimAfter, every), length
	}
	return 0, 0
}

// dimAfter is how long others may be hidden.
const dimAfter = time.Second

// Mode tells how well w sees, and in a sentence why not better; "" when there is nothing to say.
func (w *Watcher) Mode() (Mode, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.judge == nil {
		return Blind, w.why
	}
	return w.judge.mode()
}

// Close ends the watch. Looks see nothing from then on.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.judge != nil {
		w.judge.close()
		w.judge, w.why = nil, "The watch was ended."
	}
}

// Blame returns who has moved most since it was last called, but for those whose open files all lie on other devices. What
// it moved, a process may have moved elsewhere: the kernel does not tell. The first call only begins to compare. Only root
// sees processes of other users; what the device did beyond those that can be seen is put down to nobody by name. It looks
// at every process, some 10 us for each, at most once a second, and is meant for when somebody asks or a gate is engaged.
func (w *Watcher) Blame() []Culprit {
	w.mu.Lock()
	var strange uint64
	if w.judge != nil {
		strange = w.judge.strange()
	}
	w.mu.Unlock()
	w.blaming.Lock() // looks go on meanwhile
	defer w.blaming.Unlock()
	var peers []Peer
	if w.peers != nil {
		peers = w.peers()
	}
	return w.blame.Ask(time.Now(), strange, peers)
}
