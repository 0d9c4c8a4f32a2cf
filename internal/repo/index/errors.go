package index

import "errors"

var (
	// ErrNoPack: no pack has that number, or the cache that assigned the number was dropped.
	ErrNoPack = errors.New("no pack of that number in the local cache")
	// ErrTooMany: there are more blobs than numbers.
	ErrTooMany = errors.New("this repository has too many blobs for this program")
	// ErrNoRoom: no disk takes the index and it is too large for memory, so the locations of some blobs are unknown.
	ErrNoRoom = errors.New("there is no disk space for the index of this repository, and it is too large for memory: " +
		"free space in the cache folder, or choose another with --cache-dir")
	// ErrNoFolder: no disk takes a temporary index, and it is too large for memory.
	ErrNoFolder = errors.New("there is no disk space for the temporary index of this repository, and it is too large " +
		"for memory: let --cache-dir or TMPDIR name a folder with more space")
	// ErrForgotten: the cache was dropped during the run, and with it the list of packs that were known at its start.
	ErrForgotten = errors.New("the local cache was lost during this run, so that it is not known on which packs " +
		"it relies: run it again")

	// errDropped: the cache was dropped. The index must be read again before the lookup is repeated.
	errDropped = errors.New("the local cache was dropped")
	errFull    = errors.New("a temporary blob index that was queried takes no more")
)
