package diskwatch

import "errors"

var (
	// ErrUnsupported: this system has no counters of disks and processes.
	ErrUnsupported = errors.New("I/O of other processes cannot be observed on this system")
	// ErrNoDisk: the kernel shows no block device for the path.
	ErrNoDisk = errors.New("not on a disk with counters")

	errClosed = errors.New("the watch was ended")
	errFormat = errors.New("not the statistics of a disk")
)
