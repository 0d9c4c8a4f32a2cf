//go:build !linux && !darwin

package pages

// Push does nothing on this system.
func Push(int, int64, int64, bool) error { return nil }

// ReadAhead does nothing on this system.
func ReadAhead(int, bool) {}
