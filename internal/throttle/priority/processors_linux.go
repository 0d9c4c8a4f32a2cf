package priority

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// Processors are those that the threads of this process may run on. A process needs one of them; the zero value has
// changed nothing. It is safe for concurrent use.
type Processors struct {
	mu      sync.Mutex
	allowed unix.CPUSet // before anything was changed
	chosen  unix.CPUSet // none: nothing is changed
	last    use
}

// use is for how long processors were in use since the machine started.
type use struct {
	at  time.Time
	all map[int]time.Duration // by number, also while they waited for a disk
	own time.Duration         // of this process
}

const (
	// statTick is the unit of /proc/stat, the same for all programs (USER_HZ).
	statTick = 10 * time.Millisecond
	// reluctance is by which part of the time another processor must be in less use than a chosen one to replace it.
	reluctance = 0.25
)

// Use keeps this process to a part of its processors from now on, rounded up to whole ones: those that other programs
// use least, or wait on for a disk least often. It needs to be called twice to know them, and again to follow them. A
// part of 1 gives the process all that it had before. Where the kernel refuses that, nothing changes.
func (p *Processors) Use(part float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var now unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &now) != nil {
		return
	}
	if p.chosen.Count() == 0 || now != p.chosen { // or another program has set it since
		p.allowed, p.chosen = now, unix.CPUSet{}
	}
	n := p.allowed.Count()
	needed := max(1, int(math.Ceil(part*float64(n))))
	if needed >= n {
		if p.chosen.Count() > 0 {
			assign(p.allowed)
		}
		p.chosen, p.last = unix.CPUSet{}, use{}
		return
	}
	before := p.last
	if p.last = usedNow(); before.at.IsZero() {
		return
	}
	if choice := p.choose(needed, before); choice != p.chosen && assign(choice) {
		p.chosen = choice
	}
}

// Start calls start on a thread that has all processors of this process, so that a child process has them too: it keeps
// what it inherits for as long as it runs.
func (p *Processors) Start(start func() error) (err error) {
	p.mu.Lock() // or this thread would be moved like all others
	defer p.mu.Unlock()
	if p.chosen.Count() == 0 {
		return start()
	}
	onOwnThread(func() {
		if err = unix.SchedSetaffinity(0, &p.allowed); err == nil {
			err = start()
		}
	})
	return err
}

// choose returns the processors in the least use since an earlier moment.
func (p *Processors) choose(needed int, before use) (choice unix.CPUSet) {
	length := p.last.at.Sub(before.at)
	own := (p.last.own - before.own) / time.Duration(max(1, p.chosen.Count()))
	used := map[int]time.Duration{}
	var all []int
	for i := range len(p.allowed) * 64 {
		if !p.allowed.IsSet(i) {
			continue
		}
		took := p.last.all[i] - before.all[i]
		if p.chosen.IsSet(i) {
			took = max(0, took-own) - time.Duration(reluctance*float64(length))
		}
		all, used[i] = append(all, i), took
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(used[a], used[b]) })
	for _, i := range all[:needed] {
		choice.Set(i)
	}
	return choice
}

// usedNow returns the use of processors so far. What cannot be found out is as if unused.
func usedNow() use {
	u := use{at: time.Now(), all: map[int]time.Duration{}}
	var own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil {
		u.own = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	}
	stat, _ := sysinfo.ReadFile("/proc/stat")
	for line := range bytes.Lines(stat) {
		fields := bytes.Fields(line) // cpu0 user nice system idle iowait irq softirq steal guest guest_nice
		number, isCPU := bytes.CutPrefix(line, []byte("cpu"))
		if !isCPU {
			break
		}
		i, err := strconv.Atoi(string(number[:bytes.IndexByte(number, ' ')]))
		if err != nil || len(fields) < 9 { // the sum of all
			continue
		}
		for at, field := range fields[1:9] {
			if ticks, err := strconv.ParseInt(string(field), 10, 64); err == nil && at != 3 {
				u.all[i] += time.Duration(ticks) * statTick
			}
		}
	}
	return u
}

// assign sets the processors of all threads, and reports whether the main thread has them.
func assign(set unix.CPUSet) bool {
	self := &Process{pid: os.Getpid(), own: true}
	var now unix.CPUSet
	err := untilQuiet(func() (changed bool, err error) {
		tids, err := self.threads()
		for _, tid := range tids {
			if unix.SchedGetaffinity(tid, &now) == nil && now != set {
				changed = unix.SchedSetaffinity(tid, &set) == nil || changed
			}
		}
		return changed, err
	})
	return err == nil && unix.SchedGetaffinity(self.pid, &now) == nil && now == set
}
