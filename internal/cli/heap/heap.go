// Package heap bounds the memory of the process. It speaks to the garbage collector of Go and nothing else, and refuses to
// know what the memory is for.
package heap

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// The ballast is what is allocated and never touched, in bytes: it takes no memory, and the garbage collector counts it as
// in use. A walk through unchanged directories keeps 2 MiB; without ballast it collected a thousand times for a million
// objects, a tenth of its processor time, and with it less than a hundred times.
//
// It is allocated in pieces: one that lies where something was before is filled with zeros, and takes memory. That happens
// to few of them, and would happen to all if they were one.
const (
	ballastSize  = 64 << 20
	ballastPiece = 1 << 20
)

// How much the heap may grow over what is in use, in percent: until the ballast is there, the first collection comes at
// 8 MiB, and a short command ends before that; and from then on.
const (
	growthAtFirst = 200
	growth        = 8
)

// Bound makes the garbage collector work harder as the program comes near limit, in bytes. Nearly all that is in use are
// buffers, which it need not look into, so that collecting often costs little: a first backup with 84 MiB in use collects
// at 96 MiB, and takes no more processor time than when it collected at 106 or at 140.
//
// Ballast has to be collected once to count, with a start of the collector's threads: as much work as listing snapshots.
// So it waits for the first collection, and a command that needs none does without. The Ballast that is returned must be
// kept for as long as the process is to be bounded.
func Bound(limit int64) *Ballast {
	b := &Ballast{}
	debug.SetMemoryLimit(limit + ballastSize)
	debug.SetGCPercent(growthAtFirst)
	first := new([64]byte) // nothing refers to it: the first collection takes it away
	runtime.AddCleanup(first, (*Ballast).load, b)
	return b
}

// Ballast is memory that is only there to count.
type Ballast struct{ pieces atomic.Pointer[[][]byte] }

func (b *Ballast) load() {
	pieces := make([][]byte, ballastSize/ballastPiece)
	for i := range pieces {
		pieces[i] = make([]byte, ballastPiece)
	}
	b.pieces.Store(&pieces)
	debug.SetGCPercent(growth)
}
