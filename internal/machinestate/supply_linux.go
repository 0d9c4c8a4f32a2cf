package machinestate

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// charge sums up batteries: by energy if all state theirs, else as the mean of their percentages.
type charge struct {
	now, full float64 // in one unit
	percents  []int
	unknown   bool // one does not state its energy
}

// percent returns the charge of all batteries together; -1: not known.
func (c *charge) percent() int {
	switch {
	case !c.unknown && c.full > 0:
		return min(100, int(100*c.now/c.full+0.5))
	case len(c.percents) == 0:
		return -1
	}
	sum := 0
	for _, p := range c.percents {
		sum += p
	}
	return sum / len(c.percents)
}

// supply returns the power supply of the machine. It runs on battery if an uninterruptible power supply discharges, or
// if a battery discharges and no other supply is online. Batteries of devices, such as mice, do not count.
func (h *Host) supply() Power {
	entries, err := os.ReadDir(h.supplies)
	if err != nil {
		return Power{Charge: -1}
	}
	var online, discharging, upsDischarging bool
	var batteries, upses charge
	for _, e := range entries {
		s := supply(filepath.Join(h.supplies, e.Name()))
		if s.text("scope") == "Device" {
			continue
		}
		drains := s.text("status") == "Discharging"
		switch s.text("type") {
		case "Battery":
			if s.text("present") == "0" {
				continue
			}
			s.add(&batteries)
			discharging = discharging || drains
		case "UPS":
			s.add(&upses)
			upsDischarging = upsDischarging || drains
		default: // Mains, USB, Wireless
			online = online || s.text("online") == "1" || s.text("online") == "2"
		}
	}
	if upsDischarging {
		return Power{OnBattery: true, Charge: upses.percent()}
	}
	return Power{OnBattery: discharging && !online, Charge: batteries.percent()}
}

// supply is the folder of a power supply in sysfs.
type supply string

// text returns the content of a file, "" if it cannot be read.
func (s supply) text(name string) string {
	content, err := sysinfo.ReadFile(filepath.Join(string(s), name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// number returns the content of a file as a number.
func (s supply) number(name string) (float64, bool) {
	n, err := strconv.ParseFloat(s.text(name), 64)
	return n, err == nil && n >= 0
}

// add adds the charge of a battery. One that states charges in microampere-hours does so with a voltage of its own,
// and is therefore counted by its percentage.
func (s supply) add(c *charge) {
	now, ok1 := s.number("energy_now")
	full, ok2 := s.number("energy_full")
	if ok1 && ok2 && full > 0 {
		c.now, c.full = c.now+now, c.full+full
		c.percents = append(c.percents, min(100, int(100*now/full+0.5)))
		return
	}
	c.unknown = true
	if percent, ok := s.number("capacity"); ok {
		c.percents = append(c.percents, min(100, int(percent)))
	}
}
