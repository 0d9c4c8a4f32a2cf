package blobindex

import "errors"

var (
	// ErrNoRoom: no disk takes the index, and it is too large for memory, so that it is not known where all blobs lie.
	ErrNoRoom = errors.New("the index of this repository has no room on a disk, and is too large for memory: " +
		"make room in the cache folder, or choose another with --cache-dir")
	// ErrForgotten: a cache was lost in the middle of a run, and with it which packs were named when the run began.
	ErrForgotten = errors.New("the local cache was lost during this run, so that it is not known on which packs it relies: " +
		"run it again")

	// errLost: a cache was lost. What it held is to be read anew before the question is asked again.
	errLost = errors.New("a cache was lost")
)
