package foreign

import (
	"cmp"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// OnDevice reports whether a file system or block device with the number dev, major<<32 | minor, is on the watched
// device. known is false if that cannot be determined.
type OnDevice func(dev uint64) (here, known bool)

const (
	// maxNamed is how many processes one scan returns.
	maxNamed = 16
	// maxSearched is how many processes have their open files examined, and maxOpenFiles how many files of each.
	maxSearched, maxOpenFiles = 20, 1024
	// kernel labels kernel threads, which work for programs: write-back, journals, loop devices.
	kernel = "the kernel, writing back"
	// unnamed labels I/O that no visible process accounts for.
	unnamed = "programs of other users"
)

// location is where a process has open files.
type location uint8

const (
	unknownLocation location = iota // no evidence: it may use the device
	onDevice                        // it had something open on the device
	offDevice                       // it had something open on other devices only
)

// usage is the I/O of one process.
type usage struct {
	start  uint64
	kernel bool // a kernel thread
	// total includes ended threads and children that were waited for.
	total   uint64
	threads map[int]uint64 // bytes by ID
	// faults are page faults of children that were waited for. Every child has some: while faults stay the same, a rise of
	// total is the process's own. settled: they were the same before and after total was read.
	faults   uint64
	settled  bool
	rose     uint64 // own I/O since the previous scan
	location location
}

// since computes rose and location from the previous usage. known: old was measured and is not the zero value.
func (u *usage) since(old usage, known bool) {
	if known && old.start != u.start { // the ID was reused
		old, known = usage{}, false
	}
	u.rose, u.location = 0, old.location
	for tid, bytes := range u.threads {
		was := old.threads[tid]
		if bytes < was { // the ID was reused
			was = 0
		}
		u.rose += bytes - was
	}
	// total includes threads that have ended.
	if u.settled && u.faults == old.faults && (old.settled || !known) {
		u.rose = max(u.rose, less(u.total, old.total))
	}
	u.rose = min(u.rose, less(u.total, old.total))
}

// Program returns the name of the program of a process, "" if it cannot be read.
func Program(pid int) string { return hostTable().name(pid) }

// topProcesses compares successive scans. The zero value is ready. It is not safe for concurrent use.
type topProcesses struct {
	onDevice OnDevice // nil: every process may use the device

	before  map[int]usage
	foreign uint64
}

// update returns the processes with most I/O since the previous call, without those whose open files are all on other
// devices, and with what they have read and made dirty on all devices since: the kernel does not report which device a
// process used. A process ID of 0 stands for several that cannot be named. Children are not counted with their parent.
// The first call returns nothing. Only root sees processes of other users: the
// part of foreign, the bytes that others moved on the device so far, which no visible process accounts for is labelled
// unnamed.
func (b *topProcesses) update(foreign uint64, all procTable) []report.Process {
	after := all.scan(b.before)
	first := b.before == nil
	moved := less(foreign, b.foreign)
	b.before, b.foreign = after, foreign
	if first {
		return nil
	}
	found, sum, byKernel := b.pick(after, all)
	// The kernel's bytes are mostly those of the named processes once more: what the file of a loop device reads, a
	// program has read.
	limit := less(moved, sum)
	if foreign == 0 { // the device has no counters
		limit = less(byKernel, sum)
	}
	byKernel = min(byKernel, limit)
	for name, bytes := range map[string]uint64{kernel: byKernel, unnamed: less(moved, sum+byKernel)} {
		if bytes > 0 {
			found = append(found, report.Process{Name: name, Bytes: bytes})
		}
	}
	slices.SortFunc(found, func(a, b report.Process) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Name, b.Name))
	})
	return found[:min(len(found), maxNamed)]
}

// pick returns the processes with most I/O that may use the device, and the sums of those and of kernel threads.
func (b *topProcesses) pick(after map[int]usage, all procTable) (found []report.Process, sum, byKernel uint64) {
	var risen []int
	for pid, u := range after {
		switch {
		case u.rose == 0:
		case u.kernel:
			byKernel += u.rose
		default:
			risen = append(risen, pid)
		}
	}
	slices.SortFunc(risen, func(p, q int) int {
		return cmp.Or(cmp.Compare(after[q].rose, after[p].rose), cmp.Compare(p, q))
	})
	for _, pid := range risen[:min(len(risen), maxSearched)] {
		u := after[pid]
		if b.onDevice != nil {
			if seen := all.where(pid, b.onDevice); seen != unknownLocation {
				u.location = seen // else its previous location
			}
			after[pid] = u
		}
		if u.location == offDevice {
			continue
		}
		sum += u.rose
		found = append(found, report.Process{PID: pid, Name: all.name(pid), Bytes: u.rose})
	}
	return found, sum, byKernel
}

// less returns a-b, or 0.
func less(a, b uint64) uint64 { return a - min(a, b) }
