package device

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How reads are judged. A disk with an arm moves it for several milliseconds and then waits for half a turn on average,
// 4.2 ms at 7200 turns a minute; what has no arm answers in well below one, also through a USB bridge or a hypervisor
// (0.05 ms measured on a virtio disk that says rotational=1).
const (
	panel      = 32                      // reads that are judged together
	appeal     = 4                       // panels in a row that must say otherwise before a verdict is turned round
	largest    = 128 << 10               // bytes of a read that counts; of a larger one the transfer is most of the time
	perByte    = 10 * time.Nanosecond    // taken off for the transfer: 100 MB/s, the slower half of what is in use
	brisk      = 1500 * time.Microsecond // the median below which there is no arm
	seek       = 4 * time.Millisecond    // as long as this waits who waits for an arm
	unhurried  = panel - panel/4 - 1     // index of the read, sorted, that must not wait so long: one in four may
	microPrint = 10 * time.Microsecond
)

// Judge finds out whether the disks behind a path turn, where the kernel's word is weak, by how long reads of ours took
// that reached them. It is safe for concurrent use.
//
// It decides after 32 random reads: with a median below 1.5 ms, and no more than one in four of 4 ms or longer, it is
// SSD; with a median of 1.5 ms or more it is HDD. Between these lies a disk that turns and some of whose reads happened
// to be neighbours: then it waits for the next 32. (A virtio disk on flash that others kept busy had one in ten above
// 4 ms in 2 of 12 panels, and one in four never above 2.1 ms.) It goes on listening, since a queue of our own can make a
// fast disk look slow, and files that lie side by side can make a slow one look fast: when 128 reads in a row say
// otherwise, the verdict is turned round.
type Judge struct {
	listens bool
	verdict atomic.Pointer[verdict]

	mu     sync.Mutex
	took   [panel]time.Duration // without the transfer
	heard  int
	contra int // panels in a row against the verdict
}

type verdict struct {
	medium  Medium
	decided bool
	why     string
}

// NewJudge begins with what is known. Where that is not weak, the verdict stands at once and reads change nothing.
func NewJudge(info Info) *Judge {
	j := &Judge{listens: info.Weak}
	j.verdict.Store(&verdict{info.Medium, !info.Weak && info.Medium != Unknown, info.Why})
	return j
}

// Note tells of one read of so many bytes that reached the device, how long it took from request to answer, without the
// time before it was made, and whether it went on where the last one had ended. It costs some 20 ns, and 1 µs every 32nd
// time.
func (j *Judge) Note(latency time.Duration, bytes int, sequential bool) {
	if !j.listens || sequential || latency <= 0 || bytes <= 0 || bytes > largest {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.took[j.heard] = max(latency-time.Duration(bytes)*perByte, 0)
	if j.heard++; j.heard == panel {
		j.heard = 0
		j.decide()
	}
}

// decide weighs a full panel.
func (j *Judge) decide() {
	slices.Sort(j.took[:])
	median := j.took[panel/2]
	says := HDD
	if median < brisk {
		if says = SSD; j.took[unhurried] >= seek {
			says = Unknown
		}
	}
	now := j.verdict.Load()
	switch {
	case says == Unknown || now.decided && says == now.medium:
		j.contra = 0
		return
	case now.decided:
		if j.contra++; j.contra < appeal {
			return
		}
	}
	j.contra = 0
	act := "do not wait for an arm"
	if says == HDD {
		act = "wait for an arm"
	}
	j.verdict.Store(&verdict{says, true, fmt.Sprintf("Random reads %s: half of %d took less than %v, their transfer not counted.",
		act, panel, median.Truncate(microPrint)+microPrint)})
}

// Medium returns the verdict and its reason, one English sentence. Before it has decided, that is what was known at the
// beginning; if that is Unknown and nothing is to be learned by measuring, it never decides.
func (j *Judge) Medium() (medium Medium, decided bool, why string) {
	v := j.verdict.Load()
	return v.medium, v.decided, v.why
}
