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
// their operations waits behind all of ours: the fewer and the smaller, the shorter. Readers hold the largest requests,
// and eight of them read cold small files as fast as 32, while a machine of four processors and more would take sixteen.
// Scanners and uploads keep what they are given by themselves, and only a larger number that somebody asked for is cut:
// a scanner has one small request under way, and behind a network, where each waits for its way there and back, fewer
// would cost time on an idle line too.
const (
	mostScanners = 16
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
