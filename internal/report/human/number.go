// Package human formats numbers, durations and paths. Sizes and speeds are in binary units with two decimals; only
// Megabytes, for log lines in the format of Time Machine, is decimal.
package human

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Size formats n bytes: "512 B", "1.00 KiB", "17.25 GiB".
func Size(n uint64) string {
	number, unit := SizeParts(n)
	return number + " " + unit
}

// Rate formats n bytes in d as a speed: "72.32 MiB/s"; "n/a" if d is not positive.
func Rate(n uint64, d time.Duration) string {
	number, unit := RateParts(n, d)
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// Count formats n with a comma between groups of three digits.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Clocked formats d as hh:mm:ss, rounded down; hours go beyond 99.
func Clocked(d time.Duration) string {
	s := int64(max(0, d) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// About formats an estimate of time as coarsely as an estimate deserves: "5 s", "40 s", "7 min", "2 h 35 min", "3 d 4
// h". It rounds up, so it never says zero.
func About(d time.Duration) string {
	up := func(step time.Duration) time.Duration { return (max(d, 1) + step - 1) / step * step }
	switch {
	case up(5*time.Second) < time.Minute:
		return fmt.Sprintf("%d s", up(5*time.Second)/time.Second)
	case up(time.Minute) < time.Hour:
		return fmt.Sprintf("%d min", up(time.Minute)/time.Minute)
	case up(5*time.Minute) < 24*time.Hour:
		m := up(5*time.Minute) / time.Minute
		return fmt.Sprintf("%d h %02d min", m/60, m%60)
	default:
		h := up(time.Hour) / time.Hour
		return fmt.Sprintf("%d d %d h", h/24, h%24)
	}
}

// Span formats a measured or estimated time with two or three digits: "12 ms", "0.4 s", "37 s", "12 min 05 s", "3 h 20
// min". It never says zero.
func Span(d time.Duration) string {
	d = max(0, d)
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case d < time.Millisecond:
		return "under 1 ms"
	case d < 50*time.Millisecond: // would be 0.0 s
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case s < 120:
		return fmt.Sprintf("%d s", s)
	case s < 2*3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	default:
		m := int64(d.Round(time.Minute) / time.Minute)
		return fmt.Sprintf("%d h %02d min", m/60, m%60)
	}
}

// SizeParts splits a size into number and unit. The unit is chosen after rounding, so 1023.999 KiB is "1.00" "MiB".
func SizeParts(n uint64) (number, unit string) {
	if n < 1024 {
		return strconv.FormatUint(n, 10), "B"
	}
	v := float64(n)
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		v /= 1024
		if math.Round(v*100) < 102400 {
			return strconv.FormatFloat(v, 'f', 2, 64), u
		}
	}
	return strconv.FormatFloat(v/1024, 'f', 2, 64), "EiB"
}

// RateParts splits a speed into number and unit; "n/a" without a unit if d is not positive.
func RateParts(n uint64, d time.Duration) (number, unit string) {
	if d <= 0 {
		return "n/a", ""
	}
	perSecond := float64(n) / d.Seconds()
	if perSecond >= math.MaxUint64 {
		return "n/a", ""
	}
	number, unit = SizeParts(uint64(math.Round(perSecond)))
	return number, unit + "/s"
}

// Speed formats bytes per second.
func Speed(perSecond float64) string {
	number, unit := SizeParts(uint64(math.Round(min(max(0, perSecond), 1<<62))))
	return number + " " + unit + "/s"
}

// Items formats objects per second, with the two decimals of Time Machine.
func Items(perSecond float64) string { return Grouped(perSecond) + " items/s" }

// Megabytes formats bytes per second in decimal megabytes, as Time Machine's log does, so that its lines and ours can
// be compared without converting.
func Megabytes(perSecond float64) string { return Grouped(perSecond/1e6) + " MB/s" }

// Grouped formats v, which must not be negative, with two decimals and commas.
func Grouped(v float64) string {
	hundredths := uint64(math.Round(min(max(0, v), 1e15) * 100))
	return fmt.Sprintf("%s.%02d", Count(hundredths/100), hundredths%100)
}

// Percentages rounds shares to tenths of a percent that add up to exactly 100.0, by the largest remainder. All results
// are zero if the shares are.
func Percentages(shares []float64) []string {
	var sum float64
	for _, s := range shares {
		sum += s
	}
	tenths := make([]int, len(shares))
	rest := make([]float64, len(shares))
	left := 0
	if sum > 0 {
		left = 1000
		for i, s := range shares {
			exact := s / sum * 1000
			tenths[i] = int(exact)
			rest[i] = exact - float64(tenths[i])
			left -= tenths[i]
		}
	}
	for ; left > 0; left-- {
		largest := 0
		for i := range rest {
			if rest[i] > rest[largest] {
				largest = i
			}
		}
		tenths[largest]++
		rest[largest] = -1
	}
	out := make([]string, len(shares))
	for i, t := range tenths {
		out[i] = fmt.Sprintf("%d.%d", t/10, t%10)
	}
	return out
}

// Percent formats the part of a whole, 0 to 1, rounded down to a tenth: "100.0 %" is said when all is done and not
// before.
func Percent(ratio float64) string { return fmt.Sprintf("%.1f %%", math.Floor(ratio*1000)/10) }

// Share formats the part of a whole, 0 to 1, as a whole percentage; "less than 1 %" of what is more than nothing.
func Share(ratio float64) string {
	if ratio > 0 && ratio < 0.01 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", ratio*100)
}

// Plural formats a number of things: "1 failure", "2,000 failures".
func Plural(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}
