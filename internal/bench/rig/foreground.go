package rig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// ForegroundSize is how large the file is that the foreground uses.
const ForegroundSize = 512 << 20

// Foreground is a load that fio applies until it is stopped. It has one request at a time in flight, or four, and fio
// logs the latency of each of them.
type Foreground struct {
	Key   string // the word of flags
	Name  string
	Unit  string  // of throughput: "IOPS" or "MiB/s"; "s": what counts is the time that a work takes
	Rate  float64 // requests that it starts in a second; 0: the next one follows at once
	Bytes int64   // of one request
	args  []string
	work  func(ctx context.Context, dir string) (job, error) // instead of fio
}

// Running is a foreground that is running.
type Running interface {
	// Stop ends it and returns its requests, or works, in the order in which they ended.
	Stop() ([]Request, error)
}

// Apply starts a foreground. It returns when the load has had time to begin. For a work it returns at once, so that the
// work does not end before the backup begins.
func (d *Disk) Apply(ctx context.Context, f *Foreground) (Running, error) {
	if f.work != nil {
		return d.work(ctx, f), nil
	}
	return d.applyFio(ctx, f)
}

// Foregrounds returns the loads that fio applies. Requests of a load with a rate are evenly spaced, or have the
// distances of a Poisson process.
func Foregrounds(poisson bool) []Foreground {
	spacing := "--rate_process=linear"
	if poisson {
		spacing = "--rate_process=poisson"
	}
	paced := func(perSecond int) Foreground {
		return Foreground{
			Key: fmt.Sprintf("%dps", perSecond), Name: fmt.Sprintf("%d random 4 KiB reads per second", perSecond),
			Unit: "IOPS", Rate: float64(perSecond), Bytes: 4 << 10,
			args: []string{"--rw=randread", "--bs=4k", "--direct=1", fmt.Sprintf("--rate_iops=%d", perSecond), spacing},
		}
	}
	return []Foreground{
		paced(3), paced(50), paced(1000),
		{
			Key: "deep", Name: "random 4 KiB reads, 4 deep", Unit: "IOPS", Bytes: 4 << 10,
			args: []string{"--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=4"},
		},
		{
			Key: "random", Name: "random 4 KiB reads", Unit: "IOPS", Bytes: 4 << 10,
			args: []string{"--rw=randread", "--bs=4k", "--direct=1"},
		},
		{
			Key: "sequential", Name: "1 MiB reads in sequence", Unit: "MiB/s", Bytes: 1 << 20,
			args: []string{"--rw=read", "--bs=1m", "--direct=1"},
		},
		// O_SYNC: the kernel flushes within the request, so that the log has the time of write and flush together. fio
		// does not log its own fsync.
		{
			Key: "fsync", Name: "4 KiB writes with fsync", Unit: "IOPS", Bytes: 4 << 10,
			args: []string{"--rw=randwrite", "--bs=4k", "--sync=1"},
		},
	}
}

// Request is one request of a foreground.
type Request struct {
	Ended time.Time // to the millisecond
	Took  time.Duration
}

// MostlyDuring returns the works that ran at least half of their time within a span; if there is none, the first one.
func MostlyDuring(works []Request, s Span) (took []time.Duration) {
	for _, w := range works {
		if s.overlap(w.Ended.Add(-w.Took), w.Ended) >= w.Took/2 {
			took = append(took, w.Took)
		}
	}
	if len(took) == 0 && len(works) > 0 {
		took = append(took, works[0].Took)
	}
	return took
}

// FioRun is a foreground that fio applies.
type FioRun struct {
	cmd  *exec.Cmd
	dir  string // of its log, in memory
	errs bytes.Buffer
	name string
}

// applyFio starts fio, and returns when it has had time to begin.
func (d *Disk) applyFio(ctx context.Context, f *Foreground) (_ *FioRun, err error) {
	l := &FioRun{name: f.Name}
	if l.dir, err = os.MkdirTemp(d.runtime, "fio-"); err != nil {
		return nil, err
	}
	args := append([]string{
		"--name=foreground", "--filename=" + d.At("foreground"), "--size=" + strconv.Itoa(ForegroundSize),
		"--ioengine=psync", "--iodepth=1", "--time_based", "--runtime=24h", "--randrepeat=0", "--norandommap",
		"--thread", // one process: fio would leave others behind when it is killed
		"--write_lat_log=" + filepath.Join(l.dir, "log"), "--log_avg_msec=0", "--log_unix_epoch=1", "--disable_clat=1",
		"--disable_slat=1", "--output=" + filepath.Join(l.dir, "out"),
	}, f.args...)
	l.cmd = exec.CommandContext(ctx, "fio", args...)
	l.cmd.Stderr = &l.errs
	l.cmd.Dir = l.dir
	if err := l.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	if err := Pause(ctx, 1500*time.Millisecond); err != nil {
		_, _ = l.Stop() // the context has ended, which is the error to return
		return nil, err
	}
	return l, nil
}

// Stop ends the foreground and returns its requests in the order in which they ended.
func (l *FioRun) Stop() (_ []Request, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if err := l.cmd.Process.Signal(syscall.SIGINT); err != nil {
		_ = l.cmd.Wait()
		return nil, fmt.Errorf("fio, %s: ended early\n%s", l.name, kit.Tail(l.errs.Bytes()))
	}
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 128) { // 128: interrupted
		return nil, fmt.Errorf("fio, %s: %w\n%s", l.name, err, kit.Tail(l.errs.Bytes()))
	}
	logs, err := filepath.Glob(filepath.Join(l.dir, "log_lat.*"))
	if err != nil || len(logs) != 1 {
		return nil, fmt.Errorf("fio, %s: %d latency logs\n%s", l.name, len(logs), kit.Tail(l.errs.Bytes()))
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		return nil, err
	}
	return parseLatencies(text)
}

// parseLatencies reads fio's log: milliseconds since 1970, nanoseconds of latency, direction, size, offset.
func parseLatencies(text []byte) ([]Request, error) {
	out := make([]Request, 0, bytes.Count(text, []byte("\n")))
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		at, rest, _ := strings.Cut(lines.Text(), ", ")
		took, _, found := strings.Cut(rest, ", ")
		ms, err := strconv.ParseInt(at, 10, 64)
		ns, err2 := strconv.ParseInt(took, 10, 64)
		if err := errors.Join(err, err2); err != nil || !found {
			return nil, fmt.Errorf("understand fio's log: line %q: %w", lines.Text(), err)
		}
		out = append(out, Request{time.UnixMilli(ms), time.Duration(ns)})
	}
	slices.SortStableFunc(out, func(a, b Request) int { return a.Ended.Compare(b.Ended) })
	return out, nil
}

// During returns the latencies of the requests that ended within some spans.
func During(requests []Request, spans []Span) (took []time.Duration) {
	for _, s := range spans {
		from, _ := slices.BinarySearchFunc(requests, s.From, endedBefore)
		to, _ := slices.BinarySearchFunc(requests, s.To, endedBefore)
		for _, r := range requests[from:max(from, to)] {
			took = append(took, r.Took)
		}
	}
	return took
}

// Seconds returns how many requests ended in each whole second of some spans.
func Seconds(requests []Request, spans []Span) (counts []int) {
	for _, s := range spans {
		for at := s.From; !at.Add(time.Second).After(s.To); at = at.Add(time.Second) {
			counts = append(counts, len(During(requests, []Span{{From: at, To: at.Add(time.Second)}})))
		}
	}
	return counts
}

func endedBefore(r Request, t time.Time) int { return r.Ended.Compare(t) }

// Quantile returns the latency that a part q of all requests did not exceed; 0 of none. took must be sorted.
func Quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[min(len(took)-1, int(q*float64(len(took))))]
}
