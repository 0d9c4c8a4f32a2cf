//go:build !linux

package pressure

import "github.com/tidemark-backup/tidemark/internal/device"

// open watches nothing. The kernel of macOS throttles by itself; its counters of devices are behind IOKit, which cannot
// be reached without cgo, and others show none.
func open(device.Info, Options) (judge, string) {
	return nil, "This system shows nothing of what others do; its kernel has to know."
}

// Idle returns nil: when the user was last there cannot be known without cgo.
func Idle() func() bool { return nil }
