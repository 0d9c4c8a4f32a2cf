// Package processors tells how much of the machine's processors this process may use, and how much of them it has used.
// A container or a service with a quota has fewer than the machine: what counts workers by the machine's number has them
// wait for each other in turns, and what compares its use with that number never finds the processors busy.
//
// The package refuses to know who asks and what for.
package processors

import (
	"math"
	"runtime"
	"time"
)

// Allowed returns how many processors this process may keep busy on average: those that it is bound to, or its quota,
// where that is less. It is above 0, and may be a fraction. A quota that is changed later is seen by the next call.
func Allowed() float64 { return atMost(quota()) }

func atMost(limit float64, limited bool) float64 {
	if n := float64(runtime.NumCPU()); !limited || limit > n {
		return n
	}
	return limit
}

// Count returns Allowed as a number of workers that keep a processor busy each: the next whole number.
func Count() int { return Whole(Allowed()) }

// Whole returns what Allowed has told as a number of workers, for who needs both: asking takes several files of the kernel.
func Whole(allowed float64) int { return max(1, int(math.Ceil(allowed))) }

// Used returns the time of processors that this process has used so far, its own and the kernel's for it. It is 0 where
// the system does not tell.
func Used() time.Duration { return used() }
