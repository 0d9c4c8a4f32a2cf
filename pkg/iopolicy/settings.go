package iopolicy

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Settings are the numbers of the policy. DefaultSettings returns those of XNU.
type Settings struct {
	Enabled   bool
	MaxIOSize int                  // bytes of one I/O inside a window
	MaxImpact float64              // part of their speed that others may lose inside a window; 0: a slot grant is one I/O
	Window    [Tiers]time.Duration // how long an I/O of a better tier holds this tier back; index 0 is unused
	PeriodHDD [Tiers]time.Duration // between two I/Os of this tier inside a window
	PeriodSSD [Tiers]time.Duration
}

// DefaultSettings returns the settings that the kernel of macOS starts with (xnu-11417,
// bsd/miscfs/specfs/spec_vnops.c). Its largest I/O is that of a device with the usual queue of 32, and the same for
// both media: newer kernels double it for solid state where they also know the queue; a program that knows neither
// stays with the smaller figure.
func DefaultSettings() Settings {
	const ms = time.Millisecond
	return Settings{
		Enabled:   true,
		MaxIOSize: 128 << 10,
		Window:    [Tiers]time.Duration{0, 25 * ms, 100 * ms, 500 * ms},
		PeriodHDD: [Tiers]time.Duration{0, 40 * ms, 85 * ms, 200 * ms},
		PeriodSSD: [Tiers]time.Duration{0, 5 * ms, 15 * ms, 25 * ms},
	}
}

// Bounds of the settings. A period or window of 0 is allowed: the first lets an operation go at once, though small; the
// second holds a tier back only while better I/O is on the device.
const (
	leastIOSize   = 4 << 10
	largestIOSize = 16 << 20
	longestWindow = 10 * time.Minute
	longestPeriod = time.Minute
)

// Setting is one number of the policy, as sysctl shows it.
type Setting struct {
	Name  string // of the sysctl without "debug."
	Value string // whole milliseconds, bytes, 0 or 1
	Help  string // one sentence
}

// String returns the line "name: value".
func (s Setting) String() string { return s.Name + ": " + s.Value }

// number is a setting with its bounds.
type number struct {
	name, help string
	unit       string
	least      int64
	most       int64
	get        func() int64
	set        func(int64)
}

// numbers returns every setting of s.
func (s *Settings) numbers() []number {
	all := []number{{
		name: "lowpri_throttle_enabled", help: "1: worse tiers yield to better ones; 0: no tier ever waits",
		unit: "0 or 1", most: 1,
		get: func() int64 {
			if s.Enabled {
				return 1
			}
			return 0
		},
		set: func(v int64) { s.Enabled = v == 1 },
	}, {
		name: "lowpri_throttle_max_iosize", help: "largest I/O inside a window, in bytes",
		unit: "bytes", least: leastIOSize, most: largestIOSize,
		get: func() int64 { return int64(s.MaxIOSize) }, set: func(v int64) { s.MaxIOSize = int(v) },
	}}
	for t := 1; t < Tiers; t++ {
		tier := strconv.Itoa(t)
		prefix := "lowpri_throttle_tier" + tier + "_"
		all = append(all,
			milliseconds(prefix+"window_msecs", &s.Window[t], longestWindow,
				"how long one I/O of a better tier holds tier "+tier+" back, in milliseconds"),
			milliseconds(prefix+"io_period_msecs", &s.PeriodHDD[t], longestPeriod,
				"from one I/O of tier "+tier+" to the next inside a window, on rotational disks and on other machines"),
			milliseconds(prefix+"io_period_ssd_msecs", &s.PeriodSSD[t], longestPeriod,
				"from one I/O of tier "+tier+" to the next inside a window, on solid state"),
		)
	}
	return all
}

func milliseconds(name string, at *time.Duration, most time.Duration, help string) number {
	return number{
		name: name, help: help, unit: "milliseconds", most: most.Milliseconds(),
		get: at.Milliseconds, set: func(v int64) { *at = time.Duration(v) * time.Millisecond },
	}
}

// short removes the prefix of sysctl.
func short(name string) string { return strings.TrimPrefix(strings.TrimSpace(name), "debug.") }

// Set changes one setting by its sysctl name, with or without "debug.". Values are whole numbers: milliseconds, bytes,
// 0 or 1. The error wraps ErrSetting, and s is then as before.
func (s *Settings) Set(name, value string) error {
	numbers := s.numbers()
	for _, n := range numbers {
		if n.name != short(name) {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || v < n.least || v > n.most {
			return fmt.Errorf("%w: %s cannot be %q; take a whole number from %d to %d (%s)",
				ErrSetting, n.name, strings.TrimSpace(value), n.least, n.most, n.unit)
		}
		n.set(v)
		return nil
	}
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = n.name
	}
	return fmt.Errorf("%w: no setting is called %q; there are %s", ErrSetting, strings.TrimSpace(name),
		strings.Join(names, ", "))
}

// All returns every setting, in the order in which they are printed. Durations are in whole milliseconds.
func (s Settings) All() []Setting {
	numbers := s.numbers()
	all := make([]Setting, len(numbers))
	for i, n := range numbers {
		all[i] = Setting{n.name, strconv.FormatInt(n.get(), 10), n.help}
	}
	return all
}

// String returns all settings as a viewer of sysctls prints them, one a line. Load reads that back.
func (s Settings) String() string {
	var out strings.Builder
	for _, one := range s.All() {
		out.WriteString(one.String() + "\n")
	}
	return out.String()
}

// Validate reports values that Set would reject.
func (s Settings) Validate() error {
	for _, n := range s.numbers() {
		if v := n.get(); v < n.least || v > n.most {
			return fmt.Errorf("%w: %s is %d; it must be from %d to %d (%s)", ErrSetting, n.name, v, n.least, n.most, n.unit)
		}
	}
	for t := 1; t < Tiers; t++ {
		for _, d := range []time.Duration{s.Window[t], s.PeriodHDD[t], s.PeriodSSD[t]} {
			if d%time.Millisecond != 0 {
				return fmt.Errorf("%w: %v for tier %d; windows and periods are whole milliseconds", ErrSetting, d, t)
			}
		}
	}
	return nil
}

// Load changes the settings that r names, in lines of "name: value" or "name=value"; what follows a # is a comment. On
// an error, which names the line, s is as before.
func (s *Settings) Load(r io.Reader) error {
	changed := *s
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		at := strings.IndexAny(text, ":=")
		if at < 0 {
			return fmt.Errorf("line %d: %w: %q; write \"name: value\"", n, ErrSetting, text)
		}
		if err := changed.Set(text[:at], text[at+1:]); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	*s = changed
	return nil
}
