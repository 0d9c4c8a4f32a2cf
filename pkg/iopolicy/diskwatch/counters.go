package diskwatch

import "time"

// sector is the unit of the kernel's statistics of disks and processes, whatever the sector size of the disk is.
const sector = 512

// Counters are the sums of some disks since boot.
type Counters struct {
	Read, Written uint64 // bytes of completed I/Os
	Reads, Writes uint64 // completed I/Os
	Flushes       uint64
	Inflight      int           // requests on the disks now
	Busy          time.Duration // time with at least one request
	Waited        time.Duration // of all completed reads and writes together, in whole milliseconds
}

// Process is what this process has submitted to all devices since it started.
type Process struct {
	Read    uint64 // bytes, counted at submission
	Dirtied uint64 // bytes, counted when a page becomes dirty, or at submission of direct I/O
	Faults  uint64 // page faults that waited for a device
}

// add adds a stat file of sysfs. Of its columns the 1st and 5th are completed reads and writes, the 3rd and 7th
// sectors, the 4th and 8th milliseconds that they took, the 9th requests in flight, the 10th milliseconds with at least
// one, and the 16th flushes (Linux 5.5 and later).
func (c *Counters) add(text []byte) error {
	var column [16]uint64
	n := 0
	for ; n < len(column); n++ {
		v, rest := Number(text)
		if rest == nil {
			break
		}
		column[n], text = v, rest
	}
	if n < 11 {
		return errFormat
	}
	c.Reads += column[0]
	c.Writes += column[4]
	c.Read += column[2] * sector
	c.Written += column[6] * sector
	c.Inflight += int(column[8])
	c.Busy += time.Duration(column[9]) * time.Millisecond
	c.Waited += time.Duration(column[3]+column[7]) * time.Millisecond
	c.Flushes += column[15]
	return nil
}

// Number parses the number at the start of text, after spaces. rest is nil if there is none.
func Number(text []byte) (v uint64, rest []byte) {
	i := 0
	for i < len(text) && text[i] == ' ' {
		i++
	}
	start := i
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		v = v*10 + uint64(text[i]-'0')
		i++
	}
	if i == start {
		return 0, nil
	}
	return v, text[i:]
}
