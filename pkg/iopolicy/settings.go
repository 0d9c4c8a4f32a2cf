package iopolicy

import "time"

// Settings are the numbers of the policy. Default returns those of XNU.
type Settings struct {
	Enabled   bool
	MaxIOSize int                  // bytes of one I/O inside a window
	Window    [Tiers]time.Duration // how long an I/O of a better tier holds this tier back; index 0 is unused
	PeriodHDD [Tiers]time.Duration // between two I/Os of this tier inside a window
	PeriodSSD [Tiers]time.Duration
}

// Default returns the settings that the kernel of macOS starts with (xnu-11417, bsd/miscfs/specfs/spec_vnops.c).
func Default() Settings {
	const ms = time.Millisecond
	return Settings{
		Enabled:   true,
		MaxIOSize: 128 << 10,
		Window:    [Tiers]time.Duration{0, 25 * ms, 100 * ms, 500 * ms},
		PeriodHDD: [Tiers]time.Duration{0, 40 * ms, 85 * ms, 200 * ms},
		PeriodSSD: [Tiers]time.Duration{0, 5 * ms, 15 * ms, 25 * ms},
	}
}
