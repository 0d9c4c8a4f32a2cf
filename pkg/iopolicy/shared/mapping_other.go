//go:build !linux && !darwin

package shared

import (
	"errors"
	"fmt"
)

// Elsewhere than on Linux and macOS nothing is shared: every process is by itself.

func open(string, string, int) (*mapping, error) {
	return nil, fmt.Errorf("share the state of a device: %w", errors.ErrUnsupported)
}

func monotonic() (int64, error) { return 0, errors.ErrUnsupported }

func startOf(int) (int64, error) { return 0, errors.ErrUnsupported }

func (m *mapping) stale(string, string) bool { return false }
func (m *mapping) lockSlot(int) bool         { return false }
func (m *mapping) lockAll() bool             { return false }
func (m *mapping) unlockAll()                {}
func (m *mapping) unlockSlot(int)            {}
func (m *mapping) lives(int, owner) bool     { return false }
func (m *mapping) stays(owner) bool          { return false }

func owned(string, int) bool { return false }
