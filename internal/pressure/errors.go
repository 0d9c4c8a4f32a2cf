package pressure

import "errors"

// errNotCounted: the kernel keeps no counters for it.
var errNotCounted = errors.New("the kernel keeps no counters for this mount")
