package session

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/store"
)

var (
	// ErrLeaseLost: this writer was silent for so long that others may have taken it for dead, and what it relied on
	// is not certain to be in the repository any more.
	ErrLeaseLost = errors.New("the lease of this run has expired; run it again, what was stored will be reused")
	// ErrNotStored: blobs were claimed and never written, so a snapshot could name what is not there.
	ErrNotStored = errors.New("claimed blobs were not stored")
	// ErrReplaced: what this session stored, and had proven, is not there any more. It is a kind of store.ErrGone.
	ErrReplaced = fmt.Errorf("%w: the repository was replaced by another copy of it, set back to an earlier state, or loses "+
		"files; no snapshot was saved; run 'tidemark check', then the backup again", store.ErrGone)
	// ErrMismatch: what was read back from the target is not what was sent.
	ErrMismatch = errors.New("the target does not hold what was sent to it")
	// ErrTooLarge: a blob exceeds what one frame can hold.
	ErrTooLarge = errors.New("blob is too large for a frame")
)
