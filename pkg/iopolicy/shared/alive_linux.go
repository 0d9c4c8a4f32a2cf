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

// bootID returns what is different after each boot.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(id)), err
}

// startOf returns when a process started, in clock ticks since boot. One that has ended and was not waited for is dead.
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

// lockAll has nothing to do: each slot has a lock, which stays with its owner and tells that he lives.
func (m *mapping) lockAll() bool { return true }
func (m *mapping) unlockAll()    {}

// lockPlace takes the lock of slot i, unless somebody has it.
func (m *mapping) lockPlace(i int) bool {
	return m.fcntl(i, unix.F_OFD_SETLK, unix.F_WRLCK) == unix.F_WRLCK
}

// unlockPlace gives the lock back.
func (m *mapping) unlockPlace(i int) { m.fcntl(i, unix.F_OFD_SETLK, unix.F_UNLCK) }

// lives asks the kernel whether somebody has the lock of slot i, or for a bound one, whether its process is there.
func (m *mapping) lives(i int, o owner) bool {
	if o.manner == bound {
		return m.stays(o)
	}
	return m.fcntl(i, unix.F_OFD_GETLK, unix.F_WRLCK) != unix.F_UNLCK
}

// stays reports whether a slot whose lock is free is alive all the same.
func (m *mapping) stays(o owner) bool {
	started, err := startOf(int(o.pid))
	return o.manner == bound && err == nil && started == o.started
}

// fcntl returns the kind of lock that it left or found; what failed counts as not locked.
func (m *mapping) fcntl(i, cmd int, kind int16) int16 {
	lock := unix.Flock_t{Type: kind, Start: placesAt + int64(i)*stride, Len: 1}
	if m.fd < 0 || unix.FcntlFlock(uintptr(m.fd), cmd, &lock) != nil {
		return unix.F_UNLCK
	}
	return lock.Type
}
