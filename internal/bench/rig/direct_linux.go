package rig

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// direct opens a file so that reads pass the page cache by.
const direct = syscall.O_DIRECT

// booted returns the moment from which the kernel's monotonic clock counts.
func booted() (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	return time.Now().Add(-time.Duration(ts.Nano())), nil
}
