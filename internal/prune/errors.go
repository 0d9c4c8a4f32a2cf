package prune

import "errors"

var (
	// ErrDamaged: what the snapshots need is not all there, so that nothing can be said to be needed by none.
	ErrDamaged = errors.New("nothing was removed, because something that snapshots need is missing or cannot be read; run " +
		"'tidemark check' to see what, and 'tidemark forget' the snapshots that are beyond help by their ID")
	// ErrBusy: another prune is at work.
	ErrBusy = errors.New("another prune is at work in this repository, or was cut off and still counts as at work, " +
		"for 45 minutes at most; try again later")
	// ErrUnread: some packs that should have been written anew could not be read.
	ErrUnread = errors.New("could not be read in whole and stayed; run 'tidemark check --read-data'")
)
