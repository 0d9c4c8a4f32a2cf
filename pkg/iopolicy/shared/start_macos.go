package shared

import "fmt"

// zombie is the state of a process that has ended and was not waited for (SZOMB in sys/proc.h).
const zombie = 5

// startOfMac returns when the process pid started, in microseconds, from its state and start in kinfo_proc. err is that
// of sysctl: EIO for an answer of 0 bytes, which is how it says that there is no such process (sysctl_prochandle of
// kern_sysctl.c, SysctlKinfoProc of x/sys).
func startOfMac(pid int, state int8, sec int64, usec int32, err error) (int64, error) {
	if err != nil || state == zombie {
		return 0, fmt.Errorf("%w: %d", ErrNoProcess, pid)
	}
	return sec*1e6 + int64(usec), nil
}
