//go:build !linux

package testkit

import "testing"

// RunWithOwnMounts is m.Run: only on Linux has a process mounts of its own.
func RunWithOwnMounts(m *testing.M) (code int) { return m.Run() }
