package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// Submitted is a request that a program has given to the kernel for a disk.
type Submitted struct {
	At      time.Time
	Write   bool // or a flush
	Bytes   int64
	Program string // the thread's name, of 15 characters at most
}

// Trace records all requests to a disk but those of this process, with the kernel's time of each.
type Trace struct {
	dir     string // of the kernel's tracing, with a buffer of its own
	mounted string // mount point made for it
	pipe    *os.File
	done    chan struct{}

	mu  sync.Mutex
	all []Submitted
	err error
}

// tracing is where the kernel shows its tracing.
const tracing = "/sys/kernel/tracing"

// Trace begins to record.
func (d *Disk) Trace(ctx context.Context) (_ *Trace, err error) {
	t := &Trace{done: make(chan struct{})}
	close(t.done) // until it reads
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if _, err := os.Stat(filepath.Join(tracing, "instances")); err != nil {
		if _, err := Command(ctx, "mount", "-t", "tracefs", "tracefs", tracing); err != nil {
			return nil, err
		}
		t.mounted = tracing
	}
	dir := filepath.Join(tracing, "instances", fmt.Sprintf("tidemark-bench-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	t.dir = dir
	number, err := sysinfo.ReadFile("/sys/class/block/" + d.Name() + "/dev")
	if err != nil {
		return nil, err
	}
	filter, err := traceFilter(strings.TrimSpace(string(number)))
	if err != nil {
		return nil, err
	}
	event := filepath.Join("events", "block", "block_bio_queue")
	for _, set := range [][2]string{
		{"trace_clock", "mono"}, {"buffer_size_kb", "8192"}, {filepath.Join(event, "filter"), filter},
		{filepath.Join(event, "enable"), "1"},
	} {
		if err := os.WriteFile(filepath.Join(dir, set[0]), []byte(set[1]), 0); err != nil {
			return nil, fmt.Errorf("trace %s: %w", d.Name(), err)
		}
	}
	boot, err := booted()
	if err != nil {
		return nil, err
	}
	if t.pipe, err = os.Open(filepath.Join(dir, "trace_pipe")); err != nil {
		return nil, err
	}
	t.done = make(chan struct{})
	go t.read(boot)
	return t, nil
}

// traceFilter selects the requests to a disk that are not those of this process.
func traceFilter(number string) (string, error) {
	var major, minor uint64
	if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
		return "", fmt.Errorf("number %q of the disk: %w", number, err)
	}
	self, err := sysinfo.ReadFile("/proc/self/comm")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`dev == %d && comm != "%s"`, major<<20|minor, strings.TrimSpace(string(self))), nil
}

func (t *Trace) read(boot time.Time) {
	defer close(t.done)
	lines := bufio.NewScanner(t.pipe)
	for lines.Scan() {
		r, ok, err := parseTrace(lines.Text(), boot)
		t.mu.Lock()
		if t.err = errors.Join(t.err, err); ok {
			t.all = append(t.all, r)
		}
		t.mu.Unlock()
	}
}

// parseTrace parses a line such as
//
//	tidemark-812   [001] .....  4711.000321: block_bio_queue: 7,0 R 1234 + 8 [tidemark]
//
// whose time counts from boot. Lines of other events are skipped; a report of lost events is an error.
func parseTrace(line string, boot time.Time) (r Submitted, ok bool, err error) {
	head, event, found := strings.Cut(line, ": block_bio_queue: ")
	if !found {
		if strings.Contains(line, "LOST") {
			return r, false, fmt.Errorf("the trace has a hole: %s", line)
		}
		return r, false, nil
	}
	seconds, err := strconv.ParseFloat(head[strings.LastIndexByte(head, ' ')+1:], 64)
	fields := strings.Fields(event)
	if err != nil || len(fields) < 6 {
		return r, false, fmt.Errorf("understand trace: %q", line)
	}
	sectors, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil {
		return r, false, fmt.Errorf("understand trace: %q: %w", line, err)
	}
	_, program, _ := strings.Cut(event, "[")
	return Submitted{
		At: boot.Add(time.Duration(seconds * float64(time.Second))), Write: !strings.HasPrefix(fields[1], "R"),
		Bytes: sectors * 512, Program: strings.TrimSuffix(program, "]"),
	}, true, nil
}

// Between returns the requests that were submitted from one moment to another.
func (t *Trace) Between(from, to time.Time) (out []Submitted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.all) - 1; i >= 0 && !t.all[i].At.Before(from.Add(-time.Second)); i-- { // a second: processors differ
		if r := t.all[i]; !r.At.Before(from) && r.At.Before(to) {
			out = append(out, r)
		}
	}
	for i, k := 0, len(out)-1; i < k; i, k = i+1, k-1 {
		out[i], out[k] = out[k], out[i]
	}
	return out
}

// Close ends the recording, and returns what went wrong with it.
func (t *Trace) Close() error {
	var all error
	if t.dir != "" {
		all = os.WriteFile(filepath.Join(t.dir, "events", "block", "block_bio_queue", "enable"), []byte("0"), 0)
	}
	if t.pipe != nil {
		all = errors.Join(all, t.pipe.Close())
	}
	<-t.done
	if t.dir != "" {
		all = errors.Join(all, os.Remove(t.dir))
	}
	if t.mounted != "" {
		_, err := Command(context.Background(), "umount", t.mounted)
		all = errors.Join(all, err)
	}
	return errors.Join(all, t.err)
}
