//go:build !linux && !darwin

package diskwatch

import "time"

// Disks are the statistics files of some disks. This system has none.
type Disks struct{}

// OpenDisks returns ErrUnsupported.
func OpenDisks(...string) (*Disks, error) { return nil, ErrUnsupported }

// Pace returns usual.
func (d *Disks) Pace(usual time.Duration) time.Duration { return usual }

// Close does nothing.
func (d *Disks) Close() {}

// Counters returns ErrUnsupported.
func (d *Disks) Counters() (Counters, error) { return Counters{}, ErrUnsupported }

func (d *Disks) count() int        { return 0 }
func (d *Disks) self() Process     { return Process{} }
func (d *Disks) cancelled() uint64 { return 0 }

// Self returns zeros.
func Self() Process { return Process{} }

// Watch returns ErrUnsupported.
func Watch(string) (*Watcher, error) { return nil, ErrUnsupported }
