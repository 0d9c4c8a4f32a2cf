package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// mountsVariable marks a process with its own mount namespace.
const mountsVariable = "TIDEMARK_TEST_OWN_MOUNTS"

// RunWithOwnMounts is m.Run for a TestMain of tests that mount file systems. As root it runs them in a process with a
// mount namespace of its own. Existing mounts are visible there, and new ones are private: they end with the process,
// even if it is killed. Without root no mount is possible, and it is m.Run.
func RunWithOwnMounts(m *testing.M) (code int) {
	if os.Geteuid() != 0 || os.Getenv(mountsVariable) != "" {
		return m.Run()
	}
	runtime.LockOSThread() // the child's death signal follows the death of this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), mountsVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil { // a container without the permission
		return m.Run()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.Exited() {
		return cmd.ProcessState.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "the tests:", err)
	return 2
}
