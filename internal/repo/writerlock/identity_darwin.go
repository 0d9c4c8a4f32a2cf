package writerlock

import "golang.org/x/sys/unix"

// identity names the boot; "" if it is unknown. There are no PID namespaces.
func identity() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
}
