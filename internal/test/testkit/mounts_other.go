//go:build !linux

package testkit

import "testing"

// RunWithOwnMounts is m.Run: mount namespaces exist on Linux only.
func RunWithOwnMounts(m *testing.M) (code int) { return m.Run() }
