package others

import "errors"

// errEnded: the process has ended, and another may have its number.
var errEnded = errors.New("the process has ended")
