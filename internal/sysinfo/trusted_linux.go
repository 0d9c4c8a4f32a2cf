package sysinfo

import (
	"os"

	"golang.org/x/sys/unix"
)

// HidesTrusted reports whether the kernel hides attributes trusted.* from this process of root, as from one without
// CAP_SYS_ADMIN. Processes of others never see them.
func HidesTrusted() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0
}
