//go:build !linux

package testkit

import "testing"

// RunWithOwnMounts is m.Run: mount namespaces exist on Linux only.
func RunWithOwnMounts(m *testing.M) (code int) { return m.Run() }

// MountMemory skips the test.
func MountMemory(t testing.TB, _, _ string) {
	t.Helper()
	t.Skip("file systems in memory are mounted on Linux only")
}
