package sysinfo

import "time"

// Boot is one start of the operating system.
type Boot struct {
	ID [16]byte  // zero: unknown
	At time.Time // zero: unknown
}

// Known reports whether the system identifies this boot.
func (b Boot) Known() bool { return b.ID != [16]byte{} }
