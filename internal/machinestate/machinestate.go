// Package machinestate reports the state of the machine to the service: power, network, sleep, and disks that come and
// go. On Linux it reads sysfs and, over D-Bus, logind and NetworkManager; on macOS it runs pmset and caffeinate. What
// is missing counts as absent: a server has no battery, and a machine without NetworkManager no metered network.
package machinestate

import (
	"context"
	"time"
)

// Power is the state of power supply and network.
type Power struct {
	OnBattery bool
	Charge    int  // percent; -1: not known
	Metered   bool // the network costs by volume
}

// signal reports a change, unless an earlier one has not been received yet.
func signal(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
