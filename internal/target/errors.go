package target

import "errors"

// ErrNotFolder: the path to be probed is not an existing folder.
var ErrNotFolder = errors.New("not an existing folder")
