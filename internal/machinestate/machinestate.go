// Package machinestate reports the state of the machine to the service: power, network, sleep, and disks that come and
// go. On Linux it reads sysfs and, over D-Bus, logind and NetworkManager; on macOS it runs pmset and caffeinate. What
// is missing counts as absent: a server has no battery, and a machine without NetworkManager no metered network.
package machinestate

import (
	"context"
	"net"
	"time"
)

// dialTimeout is how long a server may take to answer.
const dialTimeout = 10 * time.Second

// Power is the state of power supply and network.
type Power struct {
	OnBattery bool
	Charge    int  // percent; -1: not known
	Metered   bool // the network costs by volume
}

// Reachable reports whether a server accepts connections at an address, as host:port.
func (h *Host) Reachable(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
