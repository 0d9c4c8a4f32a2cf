package shared

import "golang.org/x/sys/unix"

// monotonic reads the clock that package time measures by: the one that stands still while the machine sleeps.
func monotonic() (int64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_UPTIME_RAW, &ts)
	return ts.Nano(), err
}

// bootID returns what is different after each boot.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// startOf returns when a process started, in microseconds.
func startOf(pid int) (int64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return startOfMac(pid, 0, 0, 0, err)
	}
	p := &info.Proc
	return startOfMac(pid, p.P_stat, p.P_starttime.Sec, p.P_starttime.Usec, nil)
}

// lockAll keeps all others from the slots while one is chosen. Locks of an open file description for a single slot are
// not among what the system promises to programs.
func (m *mapping) lockAll() bool { return lockWhole(m.fd, 20) == nil }
func (m *mapping) unlockAll()    { _ = unix.Flock(m.fd, unix.LOCK_UN) }

func (m *mapping) lockSlot(int) bool { return true }
func (m *mapping) unlockSlot(int)    {}

// lives reports whether the process of a slot is there.
func (m *mapping) lives(_ int, o owner) bool { return m.stays(o) }

// stays does the same, since there are no locks of slots.
func (m *mapping) stays(o owner) bool {
	started, err := startOf(int(o.pid))
	return err == nil && started == o.started
}
