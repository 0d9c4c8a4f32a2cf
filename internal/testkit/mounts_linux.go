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

// mountsVariable tells a process that it has mounts of its own.
const mountsVariable = "TIDEMARK_TEST_OWN_MOUNTS"

// RunWithOwnMounts is m.Run for a TestMain of tests that mount something. As root it runs them in another process, which
// sees what is mounted here, and whose own mounts nobody else sees: they end with it, even if it is killed. Without root
// nothing can be mounted, and it is m.Run.
func RunWithOwnMounts(m *testing.M) (code int) {
	if os.Geteuid() != 0 || os.Getenv(mountsVariable) != "" {
		return m.Run()
	}
	runtime.LockOSThread() // the death of this thread would be taken for ours
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), mountsVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil { // a container that may not
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
