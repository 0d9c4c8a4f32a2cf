package target_test

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setQuota limits this user on the file system of path.
func setQuota(t *testing.T, path string, limit uint64) error {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	const setQuota, ofUser, limits = 0x800008, 0, 1
	q := [9]uint64{0: limit >> 10, 8: limits}
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), setQuota<<8|ofUser, uintptr(os.Getuid()),
		uintptr(unsafe.Pointer(&q)), 0, 0)
	if errno != 0 {
		t.Skipf("needs a file system with quotas: %v", errno)
	}
	return nil
}
