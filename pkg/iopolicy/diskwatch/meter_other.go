//go:build !linux && !darwin

package diskwatch

import "github.com/tidemark-backup/tidemark/pkg/iopolicy"

// Meter returns nil: this system has no counters of threads.
func Meter() iopolicy.Meter { return nil }
