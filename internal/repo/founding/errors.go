package founding

import "errors"

// ErrTaken: somebody else's config is there.
var ErrTaken = errors.New("another program made a repository at the same moment")
