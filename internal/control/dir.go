package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Sockets are named "job-PID-RANDOM". The random part distinguishes jobs of one process, and processes with the same ID
// in different containers.
const (
	prefix     = "job-"
	unfinished = ".new-" // before a socket is ready
)

// makeDir makes the directory if it is missing, and checks it.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of control sockets: %w", err)
	}
	return checkDir(dir)
}

// checkDir rejects a directory that other users can write. A missing one is fs.ErrNotExist.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("examine directory of control sockets: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no directory; remove it", ErrDirectory, dir)
	case !ok || int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to another user; set XDG_RUNTIME_DIR to a directory of your own", ErrDirectory, dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: others can enter %s; run 'chmod 700 %s'", ErrDirectory, dir, dir)
	}
	return nil
}

// parseName returns the process ID in the name of a socket.
func parseName(name string) (pid int, ok bool) {
	number, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	number, _, ok = strings.Cut(number, "-")
	pid, err := strconv.Atoi(number)
	return pid, ok && err == nil && pid > 0
}

// remove removes a file that may already be gone.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
