// Package testkit is shared by the tests of all packages: trees written from a literal, random trees, a hostile tree,
// an exact comparison of two trees, data of known compressibility, and a check for leaks. Only tests import it.
//
// It does not use the rest of the program. In particular, the comparison reads the disk with code of its own, so that
// it detects errors in internal/localfs.
package testkit

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// RequireRoot skips the test unless it runs as root.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it sets owners, devices or flags")
	}
}

// RequireTool skips the test unless the program name is installed; it returns its path.
func RequireTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs the program %s: %v", name, err)
	}
	return path
}

// Build builds the program in a folder of cmd. Without tables for debuggers: 1.5 s of processor time, else 2.5 s.
func Build(t testing.TB, name, to string) {
	t.Helper()
	const module = "github.com/tidemark-backup/tidemark"
	c := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", to, module+"/cmd/"+name)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
}

// Slow skips a test that takes a second or more in a short run (-short). The race detector runs it all the same: `make
// race` is short in its loops only.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Testing() && testing.Short() && !raced {
		t.Skip("takes seconds: runs without -short")
	}
}

// longVariable makes Rounds select the long run.
const longVariable = "TIDEMARK_LONG_TESTS"

// Rounds returns the number of repetitions of a test, or its step size: in a short run (-short), by default, and in a
// long run, which TIDEMARK_LONG_TESTS=1 selects, as in .ci/run.
func Rounds(short, usual, long int) int {
	switch {
	case testing.Short():
		return short
	case Long():
		return long
	}
	return usual
}

// Long reports whether this is a long run.
func Long() bool { return os.Getenv(longVariable) != "" && !testing.Short() }

// TempDir is t.TempDir for trees that resist deletion: before the removal, flags such as immutable are cleared and
// directories made writable.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := Unlock(dir); err != nil {
			t.Errorf("unlock %s: %v", dir, err)
		}
	})
	return dir
}

// RamDir is a TempDir in memory where the system has one (/dev/shm): tests that make thousands of small files would
// wait for the journal of a disk. Every user may enter it.
func RamDir(t testing.TB) string {
	t.Helper()
	if Memory() == "" {
		return TempDir(t)
	}
	dir, err := os.MkdirTemp(Memory(), "tidemark-test-")
	if err != nil {
		return TempDir(t)
	}
	t.Cleanup(func() {
		_ = Unlock(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Memory is the folder of the in-memory file system; "" where the system has none.
func Memory() string {
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return ""
	}
	return memory
}

// RamDirBeside is another directory on the same kind of file system as dir, a RamDir or a TempDir.
func RamDirBeside(t testing.TB, dir string) string {
	t.Helper()
	if strings.HasPrefix(dir, memory) {
		return RamDir(t)
	}
	return TempDir(t)
}

// memory is the in-memory file system of Linux.
const memory = "/dev/shm"

// Raced reports whether this run has the race detector, which empties pools at random.
func Raced() bool { return raced }
