// Package testkit is what the tests of all rooms share: trees written from a literal, random trees, a hostile tree, an
// exact comparison of two trees, data of known compressibility, and a check for leaks. Only tests import it.
//
// It refuses to know the rest of the program: above all the comparison reads the disk with code of its own, so that an
// error in internal/localfs cannot hide itself.
package testkit

import (
	"os"
	"os/exec"
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
