package foreign

import "github.com/tidemark-backup/tidemark/internal/throttle/device"

// open returns the counters of a device.
func open(info device.Info, opt Options) counters {
	switch info.Medium {
	case device.Memory:
		return blind("The data is in memory, so no program waits for a device.")
	case device.Remote:
		m, err := openMount(info.FS, opt)
		if err != nil {
			return blind("What others on this machine do at the server cannot be seen: " + err.Error() + ".")
		}
		return m
	case device.Unknown, device.SSD, device.HDD:
	}
	return openDisks(info, opt, "")
}
