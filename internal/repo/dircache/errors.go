package dircache

import "errors"

var errEnded = errors.New("the batch of directories has ended")
