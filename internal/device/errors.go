package device

import "errors"

// ErrMedium: the word names no medium.
var ErrMedium = errors.New("not a medium")
