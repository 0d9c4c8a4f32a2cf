package session

import "errors"

var (
	// ErrLeaseLost: this writer was silent for so long that others may have taken it for dead, and what it relied on
	// is not certain to be in the repository any more.
	ErrLeaseLost = errors.New("the lease of this run has expired; run it again, what was stored will be reused")
	// ErrNotStored: blobs were claimed and never written, so a snapshot could name what is not there.
	ErrNotStored = errors.New("claimed blobs were not stored")
	// ErrMismatch: what was read back from the target is not what was sent.
	ErrMismatch = errors.New("the target does not hold what was sent to it")
	// ErrTooLarge: a blob exceeds what one frame can hold.
	ErrTooLarge = errors.New("blob is too large for a frame")
)
