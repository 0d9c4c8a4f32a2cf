package view_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/view"
)

// TestInterrupted: a mount or a server that is ended while a program reads reports no damage; all else it reports.
func TestInterrupted(t *testing.T) {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, localfs.ErrStopped} {
		require.True(t, view.Interrupted(fmt.Errorf("look up blobs: %w", err)))
	}
	for _, err := range []error{nil, errors.New("read page 12: input/output error"), view.ErrAbsent, view.ErrNoContent} {
		require.False(t, view.Interrupted(err))
	}
}
