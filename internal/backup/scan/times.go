package scan

import (
	"time"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// Granularity is how long a file can change again without a new timestamp. A kernel stamps files with the time of its
	// last timer tick, which at HZ=100 is up to 10 ms old; doubled for safety.
	Granularity = 20 * time.Millisecond
	// coarseGranularity, in nanoseconds, is for timestamps without fractions of a second: FAT counts in steps of 2 s.
	coarseGranularity = 2_000_000_000
)

// Safe reports whether any later change of an object whose ctime is changed shows in its ctime, given that the status
// was read at the moment seen. A timestamp within the granularity before seen is not: the object could be changed again
// without getting another one (git calls this racily clean).
func Safe(changed, seen tree.Time) bool {
	slack := int64(Granularity)
	if changed.Nsec == 0 {
		slack = coarseGranularity
	}
	nsec := int64(seen.Nsec) - slack
	for nsec < 0 {
		seen.Sec, nsec = seen.Sec-1, nsec+1e9
	}
	return changed.Compare(tree.Time{Sec: seen.Sec, Nsec: uint32(nsec)}) < 0
}
