package foreign

import "github.com/tidemark-backup/tidemark/internal/throttle/device"

// planOfMac returns how others are detected on a medium with the counters of macOS; none is why they cannot be.
func planOfMac(m device.Medium, opt Options) (_ Options, none string) {
	if m == device.Remote {
		return opt, "What others on this machine do at the server cannot be seen."
	}
	if opt.Elsewhere != nil { // what an operation is charged with may be for another one
		opt.GapsOnly = "macOS counts the I/O of a process, not of a thread, and this one uses several devices"
		opt.Elsewhere = nil
	}
	return opt, ""
}
