package pressure

import "errors"

var (
	// errEnded: the process has ended, and another may have its number.
	errEnded = errors.New("the process has ended")
	// errNotCounted: the kernel keeps no counters for it.
	errNotCounted = errors.New("the kernel keeps no counters for this mount")
)
