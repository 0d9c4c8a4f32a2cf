package device

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Thresholds of the classification. A disk with an arm moves it for several milliseconds and then waits for half a
// revolution on average, 4.2 ms at 7200 rpm. Flash answers in well below a millisecond, also through a USB bridge or a
// hypervisor (0.05 ms measured on a virtio disk that reports rotational=1).
const (
	sampleWindow  = 32                      // reads that are classified together
	hysteresis    = 4                       // windows in a row that must disagree before the class changes
	largest       = 128 << 10               // bytes of a read that counts; transfer time dominates larger ones
	perByte       = 10 * time.Nanosecond    // subtracted for the transfer: 100 MB/s, a slow disk
	ssdMedian     = 1500 * time.Microsecond // a median below this excludes an arm
	seek          = 4 * time.Millisecond    // a read this slow may have waited for an arm
	upperQuartile = sampleWindow*3/4 - 1    // index in the sorted window: a quarter of the reads may be slower than seek
	precision     = 10 * time.Microsecond   // of the median in messages
)

// Classifier decides whether the disks behind a path are rotational where the kernel's flag is weak evidence, by the
// service times of reads. It is safe for concurrent use.
//
// It decides after 32 random reads: SSD for a median below 1.5 ms with at most a quarter of the reads at 4 ms or more;
// HDD for a median of 1.5 ms or more; otherwise the next 32 reads decide, since neighbouring files are read without a
// seek. (A busy virtio disk on flash had a tenth of its reads above 4 ms in 2 of 12 windows, and never a quarter above
// 2.1 ms.) The class changes later only when 128 reads in a row disagree: a deep queue makes a fast disk look slow.
type Classifier struct {
	weak    bool
	current atomic.Pointer[classification]

	mu        sync.Mutex
	took      [sampleWindow]time.Duration // without the transfer
	samples   int
	disagreed int // windows in a row
}

type classification struct {
	medium  Medium
	decided bool
	why     string
}

// NewClassifier starts with the medium in info. Unless that is weak evidence, reads do not change it.
func NewClassifier(info Info) *Classifier {
	c := &Classifier{weak: info.Weak}
	c.current.Store(&classification{info.Medium, !info.Weak && info.Medium != Unknown, info.Why})
	return c
}

// Add records the service time of a read of so many bytes that reached the device. It costs some 20 ns, and 1 µs for
// every 32nd read.
func (c *Classifier) Add(latency time.Duration, bytes int) {
	if !c.weak || latency <= 0 || bytes <= 0 || bytes > largest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took[c.samples] = max(latency-time.Duration(bytes)*perByte, 0)
	if c.samples++; c.samples == sampleWindow {
		c.samples = 0
		c.classify()
	}
}

// classify evaluates a full window.
func (c *Classifier) classify() {
	slices.Sort(c.took[:])
	median := c.took[sampleWindow/2]
	found := HDD
	if median < ssdMedian {
		if found = SSD; c.took[upperQuartile] >= seek {
			found = Unknown
		}
	}
	now := c.current.Load()
	switch {
	case found == Unknown || now.decided && found == now.medium:
		c.disagreed = 0
		return
	case now.decided:
		if c.disagreed++; c.disagreed < hysteresis {
			return
		}
	}
	c.disagreed = 0
	act := "do not wait for an arm"
	if found == HDD {
		act = "wait for an arm"
	}
	c.current.Store(&classification{found, true,
		fmt.Sprintf("Random reads %s: half of %d took less than %v, their transfer not counted.",
			act, sampleWindow, median.Truncate(precision)+precision)})
}

// Medium returns the class and one English sentence with its reason. decided is false until there is more than weak
// evidence; where the medium is Unknown and nothing is measured, that is always.
func (c *Classifier) Medium() (medium Medium, decided bool, why string) {
	now := c.current.Load()
	return now.medium, now.decided, now.why
}
