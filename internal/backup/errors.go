package backup

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
)

// ErrNothing: none of the sources exists, so there is nothing for a snapshot to hold.
var ErrNothing = errors.New("none of the named sources exists or can be read: check the paths")

// Errors of the stages that callers distinguish.
var (
	ErrNoSource = scan.ErrNoSource
	ErrMissing  = scan.ErrMissing
)
