package sysinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// leastAddresses is the smallest address space that a command works with, in bytes. Go reserves addresses that it does
// not use, and each thread and each map of the cache takes some. Measured on Linux with two processors: a small backup
// fails to allocate memory with 2 GB, and succeeds with 3 GB. With 0.6, 0.7 and 1.5 GB, Go or the threads of the C
// library failed before this check ran.
const leastAddresses = 2900 << 20

// CheckAddressSpace returns an error if the address space is limited to less than a command needs (ulimit -v). The Go
// runtime would end the program halfway, with a trace of its stacks.
func CheckAddressSpace() error {
	var limit unix.Rlimit
	if runtime.GOOS != "linux" || unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur >= leastAddresses {
		return nil
	}
	return fmt.Errorf("the address space is limited to %d MiB (ulimit -v), and at least %d MiB are needed, most of them "+
		"only reserved: lift that limit; --memory, or MemoryMax= of systemd, bounds memory itself", limit.Cur>>20,
		leastAddresses>>20)
}

// The ballast is allocated and never touched: it takes no memory, and the garbage collector counts it as in use. Sizes
// are in bytes. A walk through unchanged directories keeps 2 MiB. For a million objects it ran a thousand collections
// without ballast, a tenth of its processor time, and less than a hundred with it.
//
// It is allocated in pieces. Where an address was in use before, the runtime fills the new piece with zeros, which
// takes memory: few of many pieces, but all of a single one.
const (
	ballastSize  = 64 << 20
	ballastPiece = 1 << 20
)

// By how many percent of what is in use the heap grows until the next collection.
const (
	growthAtFirst = 200 // without ballast: the first collection comes at 8 MiB, and a short command ends before that
	growth        = 8
)

// Memory beside the buffers of a job, in bytes: stacks, directories in progress, index and cache pages; and per
// processor a compressor with its tables, history and output. With a higher limit the runtime keeps a tenth of the
// heap, ballast included, as free pages.
const (
	besideBuffers = 36 << 20
	perProcessor  = 4 << 20
)

// LimitHeap makes the garbage collector work harder as the program approaches what it needs: its buffers, in bytes, and
// the memory beside them. Nearly all memory in use holds buffers without pointers, so frequent collections cost little:
// a first backup with 84 MiB in use collects at 96 MiB, and takes no more processor time than when it collected at 106
// or at 140.
//
// Ballast counts after one collection, which starts the collector's threads: as much work as listing snapshots. So it
// is allocated after the first collection, and a command that ends before allocates none. The caller keeps the returned
// Ballast for as long as the process is to be bounded.
func LimitHeap(buffers int64) *Ballast {
	b := &Ballast{}
	debug.SetMemoryLimit(buffers + besideBuffers + int64(runtime.NumCPU())*perProcessor + ballastSize)
	debug.SetGCPercent(growthAtFirst)
	first := new([64]byte) // unreferenced: the first collection frees it
	runtime.AddCleanup(first, (*Ballast).load, b)
	return b
}

// Ballast is memory that is only allocated to be counted.
type Ballast struct{ pieces atomic.Pointer[[][]byte] }

func (b *Ballast) load() {
	pieces := make([][]byte, ballastSize/ballastPiece)
	for i := range pieces {
		pieces[i] = make([]byte, ballastPiece)
	}
	b.pieces.Store(&pieces)
	debug.SetGCPercent(growth)
}
