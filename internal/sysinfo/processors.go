package sysinfo

import (
	"math"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns how many processors this process may keep busy on average: the size of its affinity mask or its
// cgroup quota, whichever is less. It is above 0 and may be a fraction. Each call reads the quota again. Counting
// workers by the processors of the machine would oversubscribe a container with a quota.
func AllowedCPUs() float64 { return atMost(quota()) }

func atMost(limit float64, limited bool) float64 {
	if n := float64(runtime.NumCPU()); !limited || limit > n {
		return n
	}
	return limit
}

// CPUCount returns AllowedCPUs as a number of workers: the next whole number.
func CPUCount() int { return WholeCPUs(AllowedCPUs()) }

// WholeCPUs converts the result of AllowedCPUs to a number of workers. It saves reading the files of the kernel again.
func WholeCPUs(allowed float64) int { return max(1, int(math.Ceil(allowed))) }

// CPUTime returns the processor time that this process has used, in user and kernel mode; 0 if it is unknown.
func CPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// LetWait raises GOMAXPROCS by a number of goroutines that wait for a disk. The scheduler replaces a thread that is
// blocked in a call only after 20 µs, while a disk answers in a hundred: without that, a cold walk leaves disk and
// processors idle half of the time, and a first backup takes 15 to 25 % longer. Under a CPU quota the processors of the
// quota count. GOMAXPROCS in the environment stays what it is.
func LetWait(waiting, cpu int) {
	if _, chosen := os.LookupEnv("GOMAXPROCS"); !chosen {
		runtime.GOMAXPROCS(places(waiting, cpu, runtime.GOMAXPROCS(0)))
	}
}

// places returns how many threads may run Go code at once: one for each goroutine that waits and each processor, at
// most five for a processor, so that the garbage collector, which takes a quarter of them, does not fill a small
// machine.
func places(waiting, cpu, now int) int { return max(now, min(waiting+cpu, 5*cpu)) }
