package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// ForegroundSize is how large the file is that the foreground uses.
const ForegroundSize = 512 << 20

// Load is one way to use a disk.
type Load struct {
	Name string
	args []string
	Time time.Duration // to run for
	Unit string        // of throughput: "IOPS" or "MiB/s"
}

// Loads are those of the second measurement.
func Loads() []Load {
	const s = time.Second
	return []Load{
		{"random 4 KiB reads", []string{"--rw=randread", "--bs=4k", "--direct=1"}, 16 * s / 10, "IOPS"},
		{"20 random reads per second", []string{"--rw=randread", "--bs=4k", "--direct=1", "--rate_iops=20"},
			28 * s / 10, "IOPS"},
		{"sequential reads", []string{"--rw=read", "--bs=128k", "--direct=1"}, 12 * s / 10, "MiB/s"},
		{"4 KiB writes with fsync", []string{"--rw=randwrite", "--bs=4k", "--fsync=1"}, 16 * s / 10, "IOPS"},
	}
}

// fio is the foreground of one load, to be started.
func (d *Disk) fio(ctx context.Context, l *Load, took time.Duration) *exec.Cmd {
	args := append([]string{
		"--name=foreground", "--filename=" + d.At("foreground"), "--size=" + strconv.Itoa(ForegroundSize),
		"--ioengine=psync", "--iodepth=1", "--time_based", "--ramp_time=200ms", "--randrepeat=0",
		"--thread", // one process: fio would leave others behind when it is killed
		fmt.Sprintf("--runtime=%dms", took.Milliseconds()), "--output-format=json",
	}, l.args...)
	return exec.CommandContext(ctx, "fio", args...)
}

// RunFio runs a load for some time and returns its throughput as "rate", in the load's unit, and of its latency "p50"
// and "p99", in milliseconds.
func (d *Disk) RunFio(ctx context.Context, l *Load, took time.Duration) (map[string]float64, error) {
	var out, errs bytes.Buffer
	cmd := d.fio(ctx, l, took)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("fio, %s: %w\n%s", l.Name, err, Tail(errs.Bytes()))
	}
	return parseFio(out.Bytes(), l.Unit)
}

// latency is a latency distribution from fio, in nanoseconds.
type latency struct {
	Percentile map[string]float64 `json:"percentile"`
}

// parseFio takes throughput and latency from fio's JSON. Where there are flushes, their latency counts: that of the
// preceding write is only that of the page cache.
func parseFio(text []byte, unit string) (map[string]float64, error) {
	type direction struct {
		Bandwidth float64 `json:"bw_bytes"`
		IOPS      float64 `json:"iops"`
		Latency   latency `json:"clat_ns"`
	}
	var parsed struct {
		Jobs []struct {
			Read  direction `json:"read"`
			Write direction `json:"write"`
			Sync  struct {
				Latency latency `json:"lat_ns"`
			} `json:"sync"`
		} `json:"jobs"`
	}
	start := bytes.IndexByte(text, '{') // warnings come before
	if start < 0 {
		return nil, errors.New("fio printed no JSON")
	}
	if err := json.Unmarshal(text[start:], &parsed); err != nil {
		return nil, fmt.Errorf("understand fio: %w", err)
	}
	if len(parsed.Jobs) != 1 {
		return nil, fmt.Errorf("fio reports %d jobs", len(parsed.Jobs))
	}
	j := &parsed.Jobs[0]
	at, spread := &j.Read, &j.Read.Latency
	if j.Write.IOPS > 0 {
		at, spread = &j.Write, &j.Write.Latency
		if len(j.Sync.Latency.Percentile) > 0 {
			spread = &j.Sync.Latency
		}
	}
	values := map[string]float64{
		"rate": at.IOPS, "p50": spread.Percentile["50.000000"] / 1e6, "p99": spread.Percentile["99.000000"] / 1e6,
	}
	if unit == "MiB/s" {
		values["rate"] = at.Bandwidth / (1 << 20)
	}
	if values["rate"] == 0 || values["p99"] == 0 {
		return nil, errors.New("fio did nothing")
	}
	return values, nil
}

// Background runs a foreground, the first load, until stop is called.
func (d *Disk) Background(ctx context.Context) (stop func() error, err error) {
	cmd := d.fio(ctx, &Loads()[0], time.Hour)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		if err := cmd.Process.Kill(); err != nil {
			_ = cmd.Wait()
			return errors.New("the foreground ended early")
		}
		_ = cmd.Wait() // killed above
		return nil
	}
	before, err := d.Moved()
	for err == nil { // until it reads
		var now uint64
		if now, err = d.Moved(); now > before+1<<18 {
			return stop, nil
		}
		if err == nil {
			err = Pause(ctx, 10*time.Millisecond)
		}
	}
	return nil, errors.Join(err, stop())
}
