package session

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/store"
)

var (
	// ErrLeaseLost: this writer renewed its lease too late, so a prune may have treated it as dead. Data that it relied
	// on may have been removed from the repository.
	ErrLeaseLost = errors.New("the lease of this run has expired; run it again, what was stored will be reused")
	// ErrNotStored: blobs were claimed and never written, so a snapshot could name missing blobs.
	ErrNotStored = errors.New("claimed blobs were not stored")
	// ErrReplaced: a file that this session stored and verified has disappeared. It is a kind of store.ErrGone.
	ErrReplaced = fmt.Errorf("%w: the repository was replaced by another copy of it, set back to an earlier "+
		"state, or loses files; no snapshot was saved; run 'tidemark check', then the backup again", store.ErrGone)
	// ErrMismatch: a file that was read back from the target differs from what was sent.
	ErrMismatch = errors.New("the target does not hold what was sent to it")
	// ErrTooLarge: a blob exceeds what one frame can hold.
	ErrTooLarge = errors.New("blob is too large for a frame")
)
