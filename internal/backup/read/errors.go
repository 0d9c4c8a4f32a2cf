package read

import "errors"

// ErrChanging: a file changed on every attempt to read it, and its serialization forbids storing it like that.
var ErrChanging = errors.New("changed while it was read")

// Notes about an object that is left out, which is no failure inside a source.
var (
	ErrVanished = errors.New("vanished before it was read; left out")
	ErrReplaced = errors.New("was replaced by something else before it was read; left out")
)

// errCaught is the note about a file that changed and is stored all the same.
var errCaught = errors.New("changed while it was read; stored as it was caught")

// errEndless: the size of a file of a pseudo file system is known only at its end, and some have none.
var errEndless = errors.New("more than 256 KiB in a file of a pseudo file system; its content is not stored")

// errThere: a file system reported that an object is missing or replaced, and then that it is there.
var errThere = errors.New("it is there, but cannot be opened")
