package speedtest

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// samples are the runs of one measurement.
type samples struct {
	rates     []float64
	wall, cpu time.Duration
	offDevice bool
}

// timed does one run and keeps its rate. run returns the rate and how many bytes it read of a file.
func (s *samples) timed(run func() (rate float64, read int64, err error)) error {
	cpu, blocks, err := usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	rate, read, err := run()
	if err != nil {
		return err
	}
	s.wall += time.Since(begin)
	cpuAfter, blocksAfter, err := usage()
	if err != nil {
		return err
	}
	s.cpu += cpuAfter - cpu
	s.offDevice = s.offDevice || short(read, blocksAfter-blocks)
	s.rates = append(s.rates, rate)
	return nil
}

// result summarises the runs.
func (s *samples) result(what What) Result {
	r := Result{What: what, Runs: len(s.rates), Wall: s.wall, CPU: s.cpu, OffDevice: s.offDevice}
	if r.Rate = median(s.rates); r.Rate > 0 {
		r.Spread = (slices.Max(s.rates) - slices.Min(s.rates)) / r.Rate
	}
	return r
}

// median returns the middle of some numbers, or the mean of the two in the middle; 0 for none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// perSecond returns a rate. A clock that did not move counts as its smallest step.
func perSecond(amount int64, elapsed time.Duration) float64 {
	return float64(amount) / max(elapsed, 1).Seconds()
}

// usage returns the processor time of this process, and what it has read from devices in the system's own unit.
func usage() (cpu time.Duration, blocks int64, err error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, 0, fmt.Errorf("read own processor time: %w", err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), ru.Inblock, nil
}
