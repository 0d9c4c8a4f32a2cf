package diskwatch

import "errors"

var (
	// ErrNoDisk: the kernel shows no block device for the path.
	ErrNoDisk = errors.New("not on a disk with counters")

	errClosed = errors.New("the watch was ended")
	errFormat = errors.New("not the statistics of a disk")
)
