package diskwatch

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// processMeter asks for the whole process: macOS counts by task.
type processMeter struct{}

// Meter returns the meter of this system: the bytes that the whole process has submitted to devices, since the
// kernel does not count by thread. An operation may be charged for what another thread did beside it.
func Meter() iopolicy.Meter { return processMeter{} }

// Numbers of the kernel: see xnu.txt of package arch.
const (
	procInfo      = 336 // the system call behind libproc
	callPIDRusage = 9
	rusageInfoV2  = 2
)

// ownIO returns what this process has submitted.
func ownIO() (iopolicy.Bytes, error) {
	var info rusageInfo
	_, _, errno := unix.Syscall6(procInfo, callPIDRusage, uintptr(os.Getpid()), rusageInfoV2, 0,
		uintptr(unsafe.Pointer(&info)), 0)
	if errno != 0 {
		return iopolicy.Bytes{}, errno
	}
	return iopolicy.Bytes{Read: info.read, Written: info.written}, nil
}

func (processMeter) Submitted() iopolicy.Bytes { return submitted(ownIO, operations) }

// operations returns the block operations of this process.
func operations() (in, out int64, err error) {
	var u unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Inblock, u.Oublock, err
}
