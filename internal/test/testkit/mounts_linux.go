package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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

// Mount mounts a file system in dir, which it makes, until the test is over. It skips where that is not possible.
func Mount(t testing.TB, what, kind, dir string, flags uintptr, options string) {
	t.Helper()
	RequireRoot(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(what, dir, kind, flags, options); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // not mounted
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// MountMemory mounts a file system in memory of a size, such as 8m.
func MountMemory(t testing.TB, dir, size string) {
	t.Helper()
	Mount(t, "tidemark-test", "tmpfs", dir, 0, "size="+size)
}

// Disk makes a file system of so many bytes in a file with a program such as mkfs.ext4, and mounts it until the test is
// over. It skips where that is not possible.
func Disk(t testing.TB, size int64, mkfs string, args ...string) (dir string) {
	t.Helper()
	RequireRoot(t)
	base := RamDir(t)
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "disk")
	err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, size), os.Mkdir(dir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range [][]string{append([]string{RequireTool(t, mkfs)}, append(args, image)...),
		{"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(call[0], call[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs %s: %v: %s", strings.Join(call, " "), err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
