package backup

import "errors"

var (
	// ErrNothing: none of the sources could be looked at, so there is nothing a snapshot could hold.
	ErrNothing = errors.New("none of the named sources exists or can be read: check the paths")
	// ErrChanging: a file changed on every attempt to read it, and its serialization forbids storing it like that.
	ErrChanging = errors.New("changed while it was read")
)

// errEndless: how much a file of a pseudo file system holds is known only at its end, and some have none.
var errEndless = errors.New("more than 256 KiB in a file of a pseudo file system; its content is not stored")

// errOldTree: a tree that was to be taken over cannot be read.
var errOldTree = errors.New("a tree of an earlier snapshot is damaged")

// errThere: a file system said that something is not there, or not what it was, and then that it is.
var errThere = errors.New("it is there, but cannot be opened")

// What is worth a note beside a file, but no failure.
var (
	errVanished = errors.New("vanished before it was read; left out")
	errReplaced = errors.New("was replaced by something else before it was read; left out")
	errCaught   = errors.New("changed while it was read; stored as it was caught")
)
