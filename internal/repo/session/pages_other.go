//go:build !linux

package session

// newBuffer returns memory for size bytes of a pack.
func newBuffer(size int) []byte { return make([]byte, 0, size) }

// letGo does nothing: other systems reclaim advised pages only when memory is short.
func letGo([]byte) {}
