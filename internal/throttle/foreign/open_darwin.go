package foreign

import "github.com/tidemark-backup/tidemark/internal/throttle/device"

// open returns the counters of a device.
func open(info device.Info, opt Options) counters {
	opt, none := planOfMac(info.Medium, opt)
	if none != "" {
		return blind(none)
	}
	return openDisks(info, opt)
}

// Idle returns nil: when the user was last there cannot be known without cgo.
func Idle() func() bool { return nil }

// deviceOf is not called: macOS has no list of open files in /proc.
func deviceOf(int, string) (dev uint64, ok bool) { return 0, false }
