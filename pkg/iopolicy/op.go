package iopolicy

// Medium chooses the column of I/O periods. An unknown medium counts as HDD, and so does another machine.
type Medium uint8

// The media.
const (
	HDD Medium = iota
	SSD
)

// String returns the name of m in reports.
func (m Medium) String() string {
	if m == SSD {
		return "ssd"
	}
	return "hdd"
}

// Kind is what an operation does to the device.
type Kind uint8

// The kinds of operations.
const (
	Read     Kind = iota // data; may be answered by the page cache
	Metadata             // looks something up; may be answered by a cache
	Write                // data on its way to the device
	Sync                 // waits until what was written is on the device: fsync, a commit, a rename that must last
)

// writes reports whether a Watcher must expect written bytes of such an operation.
func (k Kind) writes() bool { return k == Write || k == Sync }

// Op is one operation before it begins.
type Op struct {
	Kind  Kind
	Bytes int // its size; 0: irrelevant
	// Requests is how many requests it has in flight at the same time; 0: one.
	Requests int
	// Certain: it reaches the device whatever the caches hold (O_DIRECT, a flush, a request to another machine), and so
	// is charged without looking.
	Certain bool
}

// Bytes are amounts that reached a device.
type Bytes struct{ Read, Written uint64 }

// State is how a gate treats an operation.
type State uint8

// The states: in XNU disengaged, engaged and now.
const (
	Disengaged State = iota // no window is open: full speed
	Engaged                 // in a window: small operations only
	Waiting                 // in a window, and this period's operation was used up: wait
)

// String returns the name of s in reports.
func (s State) String() string {
	switch s {
	case Engaged:
		return "engaged"
	case Waiting:
		return "waiting"
	case Disengaged:
	}
	return "disengaged"
}
