// Package rig is the toolbox of tidemark-bench's measurements: a disk of their own, sources and repositories on it,
// backups by several programs, and foregrounds that use the disk beside them.
package rig

import (
	"context"
	"time"
)

// Pause waits, unless ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
