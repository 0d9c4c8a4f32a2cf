package tm

import "errors"

// ErrNoBackup: a name in tmutil's form stands for no snapshot.
var ErrNoBackup = errors.New("no backup has this name: 'tidemark tm listbackups' lists them")

// errDiffers: two files have different content.
var errDiffers = errors.New("the content differs")
