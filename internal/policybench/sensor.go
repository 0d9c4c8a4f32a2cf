package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// sensorNumber is the number of the measurement of the sensor.
const sensorNumber = 6

// soon is how long after the backup's next operation a foreign one must have been seen.
const soon = 100 * time.Millisecond

// touches are the kinds of single foreign operations.
func touches() []string { return []string{"read", "write"} }

// sensor measures what a look costs, by the benchmarks of the package that looks, and what is missed: a load like that of a
// backup runs in this process through a gate, another process reads or writes single blocks at random moments, and each of
// them is looked for among the sightings. Nobody outside could tell when something was seen.
func (b *bench) sensor(ctx context.Context) error {
	if err := b.looks(ctx); err != nil {
		b.problem("6: no cost of a look: %v", err)
	}
	for round := range b.runs {
		for _, kind := range turn(touches(), round) {
			if err := b.touched(ctx, kind, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// looks runs the benchmarks.
func (b *bench) looks(ctx context.Context) error {
	out, err := command(ctx, "go", "test", "-run", "^$", "-bench", ".", "./internal/pressure")
	if err != nil {
		return err
	}
	found := parseBenchmarks(string(out))
	if len(found) == 0 {
		return errors.New("internal/pressure has no benchmarks")
	}
	for _, name := range sortedKeys(found) {
		b.add(sensorNumber, name, 0, map[string]float64{"ns": found[name]})
	}
	return nil
}

// parseBenchmarks finds nanoseconds by name in the output of go test -bench.
func parseBenchmarks(text string) map[string]float64 {
	found := map[string]float64{}
	line := regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if ns, err := strconv.ParseFloat(m[2], 64); err == nil {
			found[m[1]] = ns
		}
	}
	return found
}

// recorder notes when a watcher saw something.
type recorder struct {
	*pressure.Watcher

	mu     sync.Mutex
	newest time.Time
	seen   []time.Time
}

// Look passes on.
func (r *recorder) Look(m iopolicy.Moment) iopolicy.Sighting {
	s := r.Watcher.Look(m)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range iopolicy.Tiers {
		if s.Inflight[t] || s.Newest[t].After(r.newest) {
			r.newest = now
			r.seen = append(r.seen, now)
			break
		}
	}
	return s
}

// sightings returns when something was seen.
func (r *recorder) sightings() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// touched counts how many single operations of a kind are seen.
func (b *bench) touched(ctx context.Context, kind string, round int) (err error) {
	if err := b.disk.settle(ctx, true); err != nil {
		return err
	}
	c, err := startChild(ctx, b.disk.at("foreground"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	w, err := watchDisk(b.disk.root, b.medium)
	if err != nil {
		return err
	}
	defer w.Close()
	r := &recorder{Watcher: w}
	pass := newGate(b.disk.name(), b.medium, r).Pass(iopolicy.NewClient(iopolicy.Throttle))
	l, err := startLoad(ctx, pass, b.disk.at("source"), b.disk.at("packs"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.end(), os.RemoveAll(b.disk.at("packs"))) }()

	// First nobody else is there: what is seen now is a ghost. Of the very beginning nobody knows whose it was.
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	quiet := span{from: time.Now()}
	if err := pause(ctx, b.stretched(6*time.Second)); err != nil {
		return err
	}
	quiet.to = time.Now()
	var done []span
	for limit := quiet.to.Add(b.stretched(24 * time.Second)); time.Now().Before(limit); {
		at, err := c.touch(kind)
		if err != nil {
			return err
		}
		done = append(done, at)
		if err := pause(ctx, 250*time.Millisecond+time.Duration(rand.Int64N(int64(600*time.Millisecond)))); err != nil {
			return err
		}
	}
	seen, ghosts := match(done, l.ended(), r.sightings()), 0
	for _, at := range r.sightings() {
		if !at.Before(quiet.from) && at.Before(quiet.to) {
			ghosts++
		}
	}
	b.add(sensorNumber, kind, round, map[string]float64{
		"touches": float64(len(done)), "seen": float64(seen), "percent": 100 * float64(seen) / float64(len(done)),
		"ghosts per minute": float64(ghosts) / quiet.to.Sub(quiet.from).Minutes(),
		"reads":             float64(len(l.ended())),
	})
	if mode, why := w.Mode(); mode != pressure.Exact {
		b.problem("6: the sensor worked in the mode %q. %s", mode, why)
	}
	return nil
}

// match counts the foreign operations that were seen between their beginning and soon after the first own operation that
// ended after theirs. own and seen are in order.
func match(done []span, own, seen []time.Time) (n int) {
	for _, d := range done {
		next := first(own, d.to)
		if next.IsZero() {
			next = d.to
		}
		if at := first(seen, d.from); !at.IsZero() && !at.After(next.Add(soon)) {
			n++
		}
	}
	return n
}

// first returns the first of some moments, in order, that is not before t; zero if there is none.
func first(all []time.Time, t time.Time) time.Time {
	for _, at := range all {
		if !at.Before(t) {
			return at
		}
	}
	return time.Time{}
}

// child is another process that does single operations when told.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// touchWord is the argument that makes this program such a process.
const touchWord = "touch"

func startChild(ctx context.Context, path string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, touchWord, path)}
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// touch does one and tells when it began and ended.
func (c *child) touch(kind string) (span, error) {
	if _, err := fmt.Fprintln(c.in, kind); err != nil {
		return span{}, err
	}
	var from, to int64
	if _, err := fmt.Fscanf(c.out, "%d %d\n", &from, &to); err != nil {
		return span{}, fmt.Errorf("ask the other process: %w", err)
	}
	return span{time.Unix(0, from), time.Unix(0, to)}, nil
}

func (c *child) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// touchOnDemand is what the other process does: for each line on in, one operation, and a line on out.
func touchOnDemand(path string, in io.Reader, out io.Writer) error {
	reader, err := newToucher(path, false)
	if err != nil {
		return err
	}
	writer, err := newToucher(path, true)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		from := time.Now()
		switch strings.TrimSpace(lines.Text()) {
		case "read":
			err = reader.read()
		case "write":
			err = writer.write()
		default:
			err = fmt.Errorf("%q is neither read nor write", lines.Text())
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d %d\n", from.UnixNano(), time.Now().UnixNano())
	}
	return errors.Join(reader.file.Close(), writer.file.Close())
}

func (b *bench) sensorTable() string {
	var rows [][]string
	for _, kind := range touches() {
		var all, seen float64
		for _, r := range b.of(sensorNumber, kind) {
			all, seen = all+r.Values["touches"], seen+r.Values["seen"]
		}
		if all > 0 {
			name := map[string]string{"read": "4 KiB reads", "write": "4 KiB writes with fsync"}[kind]
			rows = append(rows, []string{"foreign " + name + " seen", fmt.Sprintf("%s of %s: %s %%", number(seen, 0),
				number(all, 0), number(100*seen/all, 1))})
			rows = append(rows, []string{"false sightings per minute before", number(b.value(sensorNumber, kind, "ghosts per minute"), 1)})
		}
	}
	for _, name := range b.cases(sensorNumber, nil) {
		if v := b.value(sensorNumber, name, "ns"); v > 0 {
			rows = append(rows, []string{"cost: " + name, number(v, 0) + " ns"})
		}
	}
	return markdown([]string{"", ""}, rows)
}
