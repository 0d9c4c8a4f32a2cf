// Package host tells the service about the machine: power, network, sleep, and disks that come and go. On Linux it asks
// sysfs and, over D-Bus, logind and NetworkManager; on macOS pmset and caffeinate. What is missing counts as absent: a
// server has no battery, and a machine without NetworkManager no metered network.
package host

// Power is the state of power supply and network.
type Power struct {
	OnBattery bool
	Charge    int  // percent; -1: not known
	Metered   bool // the network costs by volume
}
