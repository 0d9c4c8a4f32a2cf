package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
	"unsafe"
)

// foregroundSize is how large the file is that the foreground uses.
const foregroundSize = 512 << 20

// load is one way to use a disk.
type load struct {
	name string
	args []string
	time time.Duration
	unit string // of throughput: "IOPS" or "MiB/s"
}

// loads are those of the second measurement.
func loads() []load {
	const s = time.Second
	return []load{
		{"random 4 KiB reads", []string{"--rw=randread", "--bs=4k", "--direct=1"}, 16 * s / 10, "IOPS"},
		{"20 random reads per second", []string{"--rw=randread", "--bs=4k", "--direct=1", "--rate_iops=20"}, 28 * s / 10, "IOPS"},
		{"sequential reads", []string{"--rw=read", "--bs=128k", "--direct=1"}, 12 * s / 10, "MiB/s"},
		{"4 KiB writes with fsync", []string{"--rw=randwrite", "--bs=4k", "--fsync=1"}, 16 * s / 10, "IOPS"},
	}
}

// fio is the foreground of one load, to be started.
func (b *bench) fio(ctx context.Context, l *load, took time.Duration) *exec.Cmd {
	args := append([]string{
		"--name=foreground", "--filename=" + b.disk.at("foreground"), "--size=" + strconv.Itoa(foregroundSize),
		"--ioengine=psync", "--iodepth=1", "--time_based", "--ramp_time=200ms", "--randrepeat=0",
		"--thread", // one process: fio would leave others behind when it is killed
		fmt.Sprintf("--runtime=%dms", took.Milliseconds()), "--output-format=json",
	}, l.args...)
	return exec.CommandContext(ctx, "fio", args...)
}

// runFio runs a load to its end.
func (b *bench) runFio(ctx context.Context, l *load) (map[string]float64, error) {
	var out, errs bytes.Buffer
	cmd := b.fio(ctx, l, b.stretched(l.time))
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("fio, %s: %w\n%s", l.name, err, tail(errs.Bytes()))
	}
	return parseFio(out.Bytes(), l.unit)
}

// latency is a distribution as fio tells it, in nanoseconds.
type latency struct {
	Percentile map[string]float64 `json:"percentile"`
}

// parseFio takes throughput and latency from fio's JSON. Where there are flushes, their latency counts: that of the write
// before is only that of the page cache.
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
		return nil, fmt.Errorf("fio tells of %d jobs", len(parsed.Jobs))
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

// background keeps a foreground going, the first load, until stop is called.
func (b *bench) background(ctx context.Context) (stop func() error, err error) {
	cmd := b.fio(ctx, &loads()[0], time.Hour)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		if err := cmd.Process.Kill(); err != nil {
			_ = cmd.Wait()
			return errors.New("the foreground ended early")
		}
		_ = cmd.Wait() // killed, as was wanted
		return nil
	}
	before, err := b.deviceReads()
	for err == nil { // until it reads
		var now uint64
		if now, err = b.deviceReads(); now > before+50 {
			return stop, nil
		}
		if err == nil {
			err = pause(ctx, 10*time.Millisecond)
		}
	}
	return nil, errors.Join(err, stop())
}

// deviceReads is how many reads the disk has done.
func (b *bench) deviceReads() (uint64, error) {
	text, err := os.ReadFile("/sys/block/" + b.disk.name() + "/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return 0, errors.New("empty statistics of the disk")
	}
	return strconv.ParseUint(string(fields[0]), 10, 64)
}

// toucher reads and writes single blocks of the foreground's file.
type toucher struct {
	file   *os.File
	buffer []byte
	random *rand.Rand
}

// block is what is read at once.
const block = 4096

// newToucher opens the file. A reader passes the page cache by.
func newToucher(path string, write bool) (*toucher, error) {
	flags := os.O_RDONLY | direct
	if write {
		flags = os.O_WRONLY
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 2*block)
	skip := (block - int(uintptr(unsafe.Pointer(&buffer[0]))%block)) % block // direct I/O wants aligned memory
	return &toucher{f, buffer[skip : skip+block : skip+block], rand.New(rand.NewPCG(uint64(os.Getpid()), 1))}, nil
}

func (t *toucher) offset() int64 { return t.random.Int64N(foregroundSize/block) * block }

// read reads one block somewhere.
func (t *toucher) read() error {
	_, err := t.file.ReadAt(t.buffer, t.offset())
	return err
}

// write writes one block somewhere and flushes it.
func (t *toucher) write() error {
	t.buffer[0]++
	if _, err := t.file.WriteAt(t.buffer, t.offset()); err != nil {
		return err
	}
	return t.file.Sync()
}

// hammer reads one block after the other for some time, and tells when the first was asked for and the last there.
func (t *toucher) hammer(ctx context.Context, d time.Duration) (from, to time.Time, err error) {
	from = time.Now()
	for to = from; to.Sub(from) < d; to = time.Now() {
		if ctx.Err() != nil {
			return from, to, context.Cause(ctx)
		}
		if err := t.read(); err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}

// endless keeps backups going, one after the other, each into an empty repository.
type endless struct {
	cancel context.CancelFunc
	done   chan struct{}
	jobs   chan *job // each as it begins
	err    error     // after done
	gaps   []span    // times without a backup; after done
}

// span is a time from one moment to another.
type span struct{ from, to time.Time }

// overlap is how much of s lies in the time told.
func (s span) overlap(from, to time.Time) time.Duration {
	if s.from.After(from) {
		from = s.from
	}
	if s.to.Before(to) {
		to = s.to
	}
	return max(0, to.Sub(from))
}

// missing is the part of a time in which there was no backup.
func missing(gaps []span, from, to time.Time) float64 {
	var sum time.Duration
	for _, g := range gaps {
		sum += g.overlap(from, to)
	}
	return sum.Seconds() / to.Sub(from).Seconds()
}

// keep starts backups of tree, and returns when the first of them does I/O.
func (b *bench) keep(ctx context.Context, c *candidate, tree string) (*endless, *job, error) {
	inner, cancel := context.WithCancel(ctx)
	e := &endless{cancel: cancel, done: make(chan struct{}), jobs: make(chan *job, 100)}
	go func() {
		defer close(e.done)
		defer close(e.jobs)
		e.err = b.again(inner, c, tree, e)
	}()
	first, ok := <-e.jobs
	if !ok {
		cancel()
		<-e.done
		return nil, nil, e.err
	}
	return e, first, first.awake(ctx)
}

func (b *bench) again(ctx context.Context, c *candidate, tree string, e *endless) error {
	for i := 0; ; i++ {
		idle := span{from: time.Now()}
		p, err := b.fresh(c, fmt.Sprintf("%s %d", c.name, i))
		if err == nil && i > 0 {
			err = dropCaches() // it would find the whole source there
		}
		if err != nil {
			return err
		}
		j, err := b.start(ctx, c, p, tree)
		if ctx.Err() != nil {
			if err == nil {
				<-j.done
			}
			return nil
		}
		if err != nil {
			return err
		}
		idle.to = time.Now()
		if i > 0 {
			e.gaps = append(e.gaps, idle)
		}
		select {
		case e.jobs <- j:
		default:
			j.kill()
			return fmt.Errorf("%s ended %d times: the source is too small, see -size", c.name, i)
		}
		<-j.done
		if ctx.Err() != nil {
			return nil
		}
		if j.err != nil {
			return j.err
		}
	}
}

// stop ends the backup that runs, and removes all repositories.
func (e *endless) stop(b *bench) error {
	e.cancel()
	<-e.done
	return errors.Join(e.err, b.clear())
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
