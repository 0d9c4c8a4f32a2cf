package priority

import "github.com/tidemark-backup/tidemark/pkg/iopolicy"

// Workers is how many goroutines of each kind a job uses.
type Workers struct {
	Scanners    int // directories looked at at once
	Readers     int // files read at once
	Compressors int // batches cut, hashed and compressed at once
	Uploads     int // packs stored at once
}

// Ceilings below Standard. What is under way when somebody else opens a window cannot be called back, so the first of
// their operations waits behind all of ours: the fewer, the shorter. From eight on, more of them add nothing to a disk
// of this machine, only to that queue; more uploads than four would not even be filled.
const (
	mostScanners = 8
	mostReaders  = 8
	mostUploads  = 4
)

// Cap returns how many workers a job may use at most under a policy on a machine of cpu processors: w itself from
// Standard on, and what is no more than the ceilings below. They are where an idle machine gains nothing by more, so
// that a job which nobody disturbs takes no longer for them. A number of 0 or less stays as it is.
func Cap(p iopolicy.Policy, w Workers, cpu int) Workers {
	if !lowers(p) {
		return w
	}
	return Workers{
		Scanners:    min(w.Scanners, mostScanners),
		Readers:     min(w.Readers, mostReaders),
		Compressors: min(w.Compressors, max(cpu, 1)),
		Uploads:     min(w.Uploads, mostUploads),
	}
}
