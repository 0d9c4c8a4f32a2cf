package smbtest

import "errors"

// ErrStopped is what Guard returns after FailNow.
var ErrStopped = errors.New("cannot go on")
