package priority

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysIopolicysys is the system call behind getiopolicy_np and setiopolicy_np, for which there is no function without
// cgo.
const sysIopolicysys = 322

// Process is a process whose priority is set, perhaps again and again. It is safe for concurrent use.
type Process struct{ *macProcess }

func calls() macCalls {
	return macCalls{getPriority: unix.Getpriority, setPriority: unix.Setpriority, iopolicysys: iopolicysys}
}

func process(pid int, own, kernel bool) (*Process, error) {
	p, err := newMacProcess(calls(), pid, own, kernel)
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// This returns this process as it is now. Call it once, at the start: what it finds is what a better policy goes back
// to. kernel: the kernel delays I/O of worse policies, not the gates.
func This(kernel bool) (*Process, error) { return process(os.Getpid(), true, kernel) }

// Other returns another process as it is now. The error wraps ErrNoProcess if there is none of that number.
func Other(pid int) (*Process, error) { return process(pid, false, true) }

// Granted does nothing: there are no threads that compute apart from others.
func (p *Process) Granted(float64) {}

// Compute calls work. On macOS the priority belongs to the process.
func (p *Process) Compute(work func(over func() bool)) { work(func() bool { return false }) }

func iopolicysys(command uintptr, param *iopolParam) error {
	_, _, errno := unix.Syscall(sysIopolicysys, command, uintptr(unsafe.Pointer(param)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
