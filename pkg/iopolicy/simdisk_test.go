package iopolicy_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// A simulated disk: requests of a job and of others compete for its channels. Everything is calculated when a program
// asks: a request is assigned to a channel when it is submitted, and later requests do not change that. So only the
// job has goroutines, and a second of 20 000 requests of others takes some milliseconds.

// simModel is a kind of disk. A channel serves one request at a time, in the order of arrival.
type simModel struct {
	channels int
	scatter  bool          // a request goes to a channel at random, else to the one that is free first
	request  time.Duration // for which a channel is busy with a request,
	kibibyte time.Duration // and with each KiB of it
	latency  time.Duration // further time of each request, in which it occupies no channel
	beside   time.Duration // and of a request that meets one of a job of ours, or more than one
	noise    float64       // standard deviation of the speed over 5 ms; over 50 ms it is half of that
	medium   iopolicy.Medium
	drift    func(at time.Duration) float64 // factor of all durations; nil: 1
}

// The models. The noise of solid state is what ADR 15 measured: 5 to 14 % in blocks of 25 ms.
func simFlash() simModel { // channels that are free for others while the job uses one
	return simModel{channels: 8, request: 40 * us, kibibyte: us / 2, latency: 20 * us, noise: 0.08, medium: iopolicy.SSD}
}

func simDies() simModel { // one request in eight waits for a channel that the job uses
	m := simFlash()
	m.scatter = true
	return m
}

func simOverlap() simModel { // one channel, which is busy for a part of each request only
	return simModel{channels: 1, request: 8 * us, kibibyte: us / 2, latency: 30 * us, noise: 0.08, medium: iopolicy.SSD}
}

func simQueue() simModel { // one request at a time: what the job uses, others lose
	return simModel{channels: 1, request: 20 * us, kibibyte: 2 * us, noise: 0.08, medium: iopolicy.SSD}
}

func simArm() simModel {
	return simModel{channels: 1, request: 8 * ms, kibibyte: 8 * us, noise: 0.08, medium: iopolicy.HDD}
}

const us = time.Microsecond

// simUser is a program that uses the disk.
type simUser struct {
	then     func(e simEvent) // called at the end of a request, and by its timer; nil: not needed
	ios      uint64
	bytes    uint64
	waited   time.Duration // of all ended requests
	inflight int
	seconds  []uint64 // bytes in each second
	waits    [64 * 16]uint64
}

// simEvent is the end of a request, or a timer.
type simEvent struct {
	at    int64 // ns since the start of the disk
	since int64 // when it was submitted; -1: a timer
	bytes int
	user  *simUser
}

// simDisk is a disk at work. All its methods but do and moved need mu.
type simDisk struct {
	simModel
	mu     sync.Mutex
	start  time.Time
	clock  int64   // up to which all events have happened
	free   []int64 // when each channel is
	events []simEvent
	all    simUser  // every request of programs
	inner  simUser  // what the disk does by itself
	ours   *simUser // a job of ours; nil: none
	rand   *rand.Rand
}

func newSimDisk(m simModel) *simDisk {
	d := &simDisk{
		simModel: m, start: time.Now(), free: make([]int64, m.channels), rand: rand.New(rand.NewPCG(1, 2)),
	}
	d.inner.then = func(e simEvent) {
		if e.since < 0 {
			d.submit(&d.inner, e.bytes)
		}
	}
	return d
}

// advance lets happen what happens until now.
func (d *simDisk) advance() {
	now := int64(time.Since(d.start))
	for len(d.events) > 0 && d.events[0].at <= now {
		e := d.pop()
		d.clock = e.at
		if e.since >= 0 {
			e.user.count(e)
			if e.user != &d.inner {
				d.all.count(e)
			}
		}
		if e.user.then != nil {
			e.user.then(e)
		}
	}
	d.clock = now
}

// count records a request that has ended.
func (u *simUser) count(e simEvent) {
	u.ios++
	u.bytes += uint64(e.bytes)
	u.waited += time.Duration(e.at - e.since)
	u.inflight--
	for s := int(e.at / int64(time.Second)); len(u.seconds) <= s; {
		u.seconds = append(u.seconds, 0)
	}
	u.seconds[e.at/int64(time.Second)] += uint64(e.bytes)
	u.waits[int(16*math.Log2(float64(max(1, e.at-e.since))))]++
}

// percentile returns the latency that a part of the requests does not exceed, to 5 %.
func (u *simUser) percentile(part float64) time.Duration {
	left := uint64(part * float64(u.ios))
	for i, n := range u.waits {
		if n > left {
			return time.Duration(math.Exp2(float64(i+1) / 16))
		}
		left -= n
	}
	return 0
}

// timer calls u.then at a moment.
func (d *simDisk) timer(u *simUser, at int64) { d.push(simEvent{at: at, since: -1, user: u}) }

// submit starts a request and returns when it ends.
func (d *simDisk) submit(u *simUser, bytes int) int64 {
	at := 0
	if d.scatter {
		at = d.rand.IntN(d.channels)
	}
	for i, free := range d.free {
		if !d.scatter && free < d.free[at] {
			at = i
		}
	}
	begins := max(d.clock, d.free[at])
	speed := d.factor(begins)
	d.free[at] = begins + int64(speed*float64(d.request+time.Duration(bytes)*d.kibibyte/1024)*d.jitter())
	latency := d.latency
	if d.ours != nil && d.ours.inflight > 0 {
		latency += d.beside
	}
	return d.finish(u, bytes, d.free[at]+int64(speed*float64(latency)*d.jitter()))
}

// cached is a request that the disk's cache answers in 0.1 ms, and that occupies a channel 100 ms later.
func (d *simDisk) cached(u *simUser, bytes int) int64 {
	d.push(simEvent{at: d.clock + int64(100*ms), since: -1, bytes: bytes, user: &d.inner})
	return d.finish(u, bytes, d.clock+int64(100*us))
}

// flush stops all channels for so long and returns when it ends.
func (d *simDisk) flush(u *simUser, took time.Duration) int64 {
	ends := d.clock
	for _, free := range d.free {
		ends = max(ends, free)
	}
	ends += int64(took)
	for i := range d.free {
		d.free[i] = ends
	}
	return d.finish(u, 0, ends)
}

func (d *simDisk) finish(u *simUser, bytes int, ends int64) int64 {
	u.inflight++
	if u != &d.inner {
		d.all.inflight++
	}
	d.push(simEvent{at: ends, since: d.clock, bytes: bytes, user: u})
	return ends
}

// do is a request of a goroutine; it returns when the request has ended. f submits it.
func (d *simDisk) do(f func() (ends int64)) {
	d.mu.Lock()
	d.advance()
	ends := f()
	d.mu.Unlock()
	time.Sleep(time.Duration(ends) - time.Since(d.start))
}

// jitter is the factor of one duration.
func (d *simDisk) jitter() float64 { return 0.7 + 0.6*d.rand.Float64() }

// factor is that of all durations at a moment. It does not depend on the requests, so that runs can be compared.
func (d *simDisk) factor(at int64) float64 {
	f := 1 + d.noise*(normal(at/int64(5*ms))+normal(-1-at/int64(50*ms))/2)
	f = max(f, 0.5)
	if d.drift != nil {
		f *= d.drift(time.Duration(at))
	}
	return f
}

// normal returns an arbitrary number for each n; they have a mean of 0 and a standard deviation of 1.
func normal(n int64) float64 {
	sum := 0.0
	for range 3 {
		n = n*6364136223846793005 + 1442695040888963407
		mixed := uint64(n) ^ uint64(n)>>29
		mixed *= 0xbf58476d1ce4e5b9
		sum += float64(mixed>>11)/(1<<53) - 0.5
	}
	return 2 * sum
}

// push and pop keep events in a heap with the earliest first.
func (d *simDisk) push(e simEvent) {
	d.events = append(d.events, e)
	i := len(d.events) - 1
	for up := (i - 1) / 2; i > 0 && d.events[up].at > e.at; up = (i - 1) / 2 {
		d.events[i] = d.events[up]
		i = up
	}
	d.events[i] = e
}

func (d *simDisk) pop() simEvent {
	first, n := d.events[0], len(d.events)-1
	e := d.events[n]
	d.events = d.events[:n]
	i := 0
	for {
		down := 2*i + 1
		if down+1 < n && d.events[down+1].at < d.events[down].at {
			down++
		}
		if down >= n || d.events[down].at >= e.at {
			break
		}
		d.events[i] = d.events[down]
		i = down
	}
	if n > 0 {
		d.events[i] = e
	}
	return first
}

// simWatcher is the Watcher of a gate whose operations are those of own.
type simWatcher struct {
	disk    *simDisk
	own     *simUser
	counted func(at time.Duration) bool // others' bytes are exact outside own operations
	journal float64                     // bytes that the file system writes for each own one; they count as others'
	last    iopolicy.Moment
	bursts  bool          // these are written in gaps, at least a MiB at a time
	shown   uint64        // of these
	single  bool          // it does not see how long the disk takes
	seen    uint64        // I/Os of others by then
	waited  time.Duration // of these
}

func (*simWatcher) Interval() time.Duration { return 5 * ms }

func (w *simWatcher) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	d := w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance()
	ios, waited := d.all.ios-w.own.ios, d.all.waited-w.own.waited
	if !w.single {
		s.Served = iopolicy.Served{IOs: d.all.ios, Took: d.all.waited}
	}
	if ios > w.seen {
		s.Newest[0] = m.At
	}
	if m.Inflight == 0 {
		s.Inflight[0] = d.all.inflight > w.own.inflight
		if w.counted(time.Duration(d.clock)) {
			s.Others.Read, s.Counted = d.all.bytes-w.own.bytes, true
		}
		if w.last.Inflight == 0 && m.Begun == w.last.Begun && !w.last.At.IsZero() {
			s.Gap, s.IOs, s.Waited = m.At.Sub(w.last.At), ios-w.seen, waited-w.waited
		}
		if late := uint64(w.journal*float64(w.own.bytes)) - w.shown; !w.bursts || s.Gap > 0 && late >= 1<<20 {
			w.shown += late
			if w.bursts {
				s.Writes = late >> 14
				s.IOs += s.Writes
			}
		}
		if s.Counted {
			s.Others.Written = w.shown
		}
	}
	w.last, w.seen, w.waited = m, ios, waited
	return s
}
