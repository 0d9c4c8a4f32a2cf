package diskwatch

import (
	"fmt"
	"time"
)

// ioStat are the sums of one disk since boot, of completed I/Os, as the block storage drivers of macOS keep them
// (IOBlockStorageDriver.h of IOKit).
type ioStat struct {
	read, written uint64 // bytes
	reads, writes uint64
	took          time.Duration // of all I/Os together
}

// ioDisks are some disks of macOS. read returns the sums of all disks of the machine by their BSD names, such as disk0.
type ioDisks struct {
	read  func() (map[string]ioStat, error)
	names []string
	cost  time.Duration // of one read
	done  uint64        // I/Os at the last one
}

// polls is how many polls are timed at the beginning: the first one also loads libraries.
const polls = 3

// openIODisks finds the disks, and measures what a poll costs by the clock now.
func openIODisks(read func() (map[string]ioStat, error), now func() time.Time, names ...string) (*ioDisks, error) {
	if len(names) == 0 {
		return nil, ErrNoDisk
	}
	d := &ioDisks{read: read, names: names}
	for range polls {
		before := now()
		if _, err := d.Counters(); err != nil {
			return nil, err
		}
		if cost := now().Sub(before); d.cost == 0 || cost < d.cost {
			d.cost = cost
		}
	}
	return d, nil
}

// share is the part of one processor that polls may take: one in a hundred.
const share = 100

// Pace returns the interval of polls: usual, or more if they would take more than a share of a processor.
func (d *ioDisks) Pace(usual time.Duration) time.Duration { return max(usual, share*d.cost) }

// Counters returns the sums over the disks. It is not safe for concurrent use. The drivers do not say how many requests
// are in flight. Where some have ended since the last poll, more may be: one is assumed then, and none otherwise.
func (d *ioDisks) Counters() (sum Counters, err error) {
	all, err := d.read()
	if err != nil {
		return sum, fmt.Errorf("read the statistics of the disks: %w", err)
	}
	for _, name := range d.names {
		one, ok := all[name]
		if !ok {
			return Counters{}, fmt.Errorf("%s: %w", name, ErrNoDisk)
		}
		sum.Read += one.read
		sum.Written += one.written
		sum.Reads += one.reads
		sum.Writes += one.writes
		sum.Waited += one.took
	}
	sum.Busy = sum.Waited
	if done := sum.Reads + sum.Writes; done != d.done {
		sum.Inflight, d.done = 1, done
	}
	return sum, nil
}
