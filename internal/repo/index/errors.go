package index

import "errors"

var (
	// ErrTooMany: there are more blobs than numbers.
	ErrTooMany = errors.New("this repository has too many blobs for this program")
	// ErrNoRoom: no disk takes the index and it is too large for memory, so the locations of some blobs are unknown.
	ErrNoRoom = errors.New("there is no disk space for the index of this repository, and it is too large for memory: " +
		"free space in the cache folder, or choose another with --cache-dir")
	// ErrNoFolder: no disk takes a temporary index, and it is too large for memory.
	ErrNoFolder = errors.New("there is no disk space for the temporary index of this repository, and it is too large " +
		"for memory: let --cache-dir or TMPDIR name a folder with more space")
	// ErrForgotten: a part of the cache was lost during the run, and with it the list of packs that were known at its
	// start.
	ErrForgotten = errors.New("the local cache was lost during this run, so that it is not known on which packs " +
		"it relies: run it again")
	// ErrLost: a part of the cache is damaged or its disk takes no more. Its segments must be merged again before the
	// lookup is repeated.
	ErrLost = errors.New("a part of the local cache was lost")

	// errBad: the run was dropped before, and its file could not be removed.
	errBad  = errors.New("it was dropped")
	errFull = errors.New("a temporary blob index that was queried takes no more")
)
