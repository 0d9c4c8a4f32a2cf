//go:build !linux

package foreign

import "github.com/tidemark-backup/tidemark/internal/throttle/device"

// open returns no detector. The kernel of macOS throttles by itself, and its counters need IOKit and so cgo.
func open(device.Info, Options) (detector, string) {
	return nil, "This system shows nothing of what others do; its kernel has to know."
}

// Idle returns nil: when the user was last there cannot be known without cgo.
func Idle() func() bool { return nil }
