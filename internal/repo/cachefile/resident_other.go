//go:build !linux

package cachefile

// dropPages does nothing: other systems do not charge clean pages of a mapping to the process, or cannot release them.
func dropPages(uintptr, uintptr) {}
