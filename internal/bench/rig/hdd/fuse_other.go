//go:build !linux

package hdd

import "errors"

// Disk is a mounted disk.
type Disk struct{}

// Mount fails: the emulation is written for Linux.
func Mount(string, string, Model) (*Disk, error) {
	return nil, errors.New("a disk can be emulated on Linux only")
}

// Unmount does nothing.
func (d *Disk) Unmount() error { return nil }
