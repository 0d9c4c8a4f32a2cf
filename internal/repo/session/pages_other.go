//go:build !linux

package session

// newBuffer returns memory for size bytes of a pack.
func newBuffer(size int) []byte { return make([]byte, 0, size) }

// letGo does nothing: elsewhere advice does not take pages from a process before the system is short of them.
func letGo([]byte) {}
