package shared

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// monotonic reads the clock that package time measures by.
func monotonic() (int64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano(), err
}

// bootID returns an identity that differs after each boot.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(id)), err
}

// startOf returns the start time of a process in clock ticks since boot. A zombie counts as ended.
func startOf(pid int) (int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("%w: %d", ErrNoProcess, pid)
	}
	// The name stands in parentheses and may hold some itself; state is the field after it, the start the 20th after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("%w: %d cannot be read from /proc", ErrNoProcess, pid)
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' {
		return 0, fmt.Errorf("%w: %d has ended", ErrNoProcess, pid)
	}
	return strconv.ParseInt(string(fields[19]), 10, 64)
}

// lockAll does nothing: each slot has a lock of its own, which also proves that its owner is alive.
func (m *mapping) lockAll() bool { return true }
func (m *mapping) unlockAll()    {}

// lockSlot locks slot i, unless another process has the lock.
func (m *mapping) lockSlot(i int) bool {
	return m.fcntl(i, unix.F_OFD_SETLK, unix.F_WRLCK) == unix.F_WRLCK
}

// unlockSlot unlocks slot i.
func (m *mapping) unlockSlot(i int) { m.fcntl(i, unix.F_OFD_SETLK, unix.F_UNLCK) }

// lives reports whether slot i is locked, or for a bound one, whether its process exists.
func (m *mapping) lives(i int, o owner) bool {
	if o.kind == bound {
		return m.stays(o)
	}
	return m.fcntl(i, unix.F_OFD_GETLK, unix.F_WRLCK) != unix.F_UNLCK
}

// stays reports whether a slot without a lock is alive: its process exists.
func (m *mapping) stays(o owner) bool {
	started, err := startOf(int(o.pid))
	return o.kind == bound && err == nil && started == o.started
}

// fcntl returns the kind of lock that it left or found; a failure counts as not locked.
func (m *mapping) fcntl(i, cmd int, kind int16) int16 {
	lock := unix.Flock_t{Type: kind, Start: slotsAt + int64(i)*stride, Len: 1}
	if m.fd < 0 || unix.FcntlFlock(uintptr(m.fd), cmd, &lock) != nil {
		return unix.F_UNLCK
	}
	return lock.Type
}
