package reach

import "errors"

// ErrSize: the chunks of a file do not add up to its size. The blobs that the snapshot needs are known all the same.
var ErrSize = errors.New("a file's chunks do not add up to its size")
