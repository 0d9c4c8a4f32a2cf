// Package misses counts what the sensor misses: a load like that of a backup runs in this process, through the two doors and
// a gate with the sensor, while another process reads or writes single blocks at random moments; and each of these is looked
// for among the sightings. Nobody outside could tell when something was seen.
package misses

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// soon is how long after the load's next operation a foreign one must have been seen.
const soon = 100 * time.Millisecond

// Times say how long is measured.
type Times struct {
	Quiet time.Duration // without anybody else: what is seen is a ghost
	Long  time.Duration // with single foreign operations
}

// Result is what was found.
type Result struct {
	Touches int // foreign operations
	Seen    int // of these
	Ghosts  int // sightings while nobody else was there
	Reads   int // operations of the load's readers
	Mode    pressure.Mode
	Why     string // why the mode is not better
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

// Count lets the load run on a disk with a source, and somebody else do operations of a kind: "read" or "write", which is one
// with a flush. The disk is taken for a medium, "ssd" or "hdd".
func Count(ctx context.Context, d *rig.Disk, medium, kind string, times Times) (res Result, err error) {
	if err := d.Settle(ctx, true); err != nil {
		return res, err
	}
	c, err := startChild(ctx, d.At("foreground"))
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	var gate *iopolicy.Gate
	w, err := watchDisk(d.At(), medium, func() (int, uint64) {
		if gate == nil { // the first look comes before it
			return 0, 0
		}
		return gate.Syncs()
	})
	if err != nil {
		return res, err
	}
	defer w.Close()
	r := &recorder{Watcher: w}
	gate = newGate(d.Name(), medium, r)
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
	l, err := startLoad(ctx, pass, d.At("source"), d.At("packs"))
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, l.end(), os.RemoveAll(d.At("packs"))) }()
	// Of the very beginning nobody knows whose it was.
	if err := rig.Pause(ctx, time.Second); err != nil {
		return res, err
	}
	quiet := rig.Span{From: time.Now()}
	if err := rig.Pause(ctx, times.Quiet); err != nil {
		return res, err
	}
	quiet.To = time.Now()
	done, err := c.now(ctx, kind, quiet.To.Add(times.Long))
	if err != nil {
		return res, err
	}
	seen := r.sightings()
	for _, at := range seen {
		if !at.Before(quiet.From) && at.Before(quiet.To) {
			res.Ghosts++
		}
	}
	own := l.ended()
	res.Touches, res.Seen, res.Reads = len(done), match(done, own, seen), len(own)
	res.Mode, res.Why = w.Mode()
	return res, nil
}

// match counts the foreign operations that were seen between their beginning and soon after the first own operation that
// ended after theirs. own and seen are in order.
func match(done []rig.Span, own, seen []time.Time) (n int) {
	for _, d := range done {
		next := first(own, d.To)
		if next.IsZero() {
			next = d.To
		}
		if at := first(seen, d.From); !at.IsZero() && !at.After(next.Add(soon)) {
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
