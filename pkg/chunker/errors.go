package chunker

import "errors"

// ErrParams: the chunk sizes are not ones this package can cut with.
var ErrParams = errors.New("chunk sizes cannot be used")
