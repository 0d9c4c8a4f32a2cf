package record

import "errors"

// errEnough ends reading, since the reader wants no more lines.
var errEnough = errors.New("no more lines are wanted")
