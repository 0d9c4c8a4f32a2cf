package foreign

import "errors"

// errNotCounted: the kernel keeps no counters for it.
var errNotCounted = errors.New("the kernel keeps no counters for it")

// errEnded: the process has ended, and another may have its ID.
var errEnded = errors.New("the process has ended")

// errClosed: Close was called.
var errClosed = errors.New("the watch was ended")
