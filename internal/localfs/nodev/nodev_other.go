//go:build !linux

package nodev

// Mounts are none: this system has no mounts that only one process sees.
type Mounts struct{}

// Dir is not to be had here.
type Dir struct{}

// Open returns ErrMissing.
func (m *Mounts) Open(int) (*Dir, error) { return nil, ErrMissing }

// OpenFile returns ErrMissing.
func (d *Dir) OpenFile(string) (int, error) { return -1, ErrMissing }

// Close does nothing.
func (d *Dir) Close() {}
