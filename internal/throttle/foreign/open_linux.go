package foreign

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// open returns the counters of a device.
func open(info device.Info, opt Options) counters {
	if info.Medium != device.Remote {
		return openDisks(info, opt)
	}
	m, err := openMount(info, opt.Proc)
	if err != nil {
		return blind("What others on this machine do at the server cannot be seen: " + err.Error() + ".")
	}
	return m
}

// deviceOf returns the number of the device that an open file lies on, or is. It sends no request to a server.
func deviceOf(dir int, name string) (dev uint64, ok bool) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return 0, false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), true
	case unix.S_IFBLK:
		return uint64(st.Rdev_major)<<32 | uint64(st.Rdev_minor), true
	}
	return 0, false
}
