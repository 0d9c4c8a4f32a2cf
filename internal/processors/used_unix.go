//go:build linux || darwin

package processors

import (
	"time"

	"golang.org/x/sys/unix"
)

func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
