package priority

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Process is a process whose priority is set, repeatedly if necessary. It is safe for concurrent use.
type Process struct {
	pid int
	own bool
	// idle: Throttle uses idle scheduling, which the threads may leave again. A child process is started without it: what
	// changes its policy later may not.
	idle bool

	mu    sync.Mutex
	known bool          // the rest of this was found out
	main  state         // of the main thread, and of those that came later, as found
	found map[int]state // of each thread that was there
	group *autogroup    // nil: none, or not ours alone
	computing
}

// This returns this process. Call it once, at the start: its priority when it is first lowered is restored by a better
// policy.
func This(bool) (*Process, error) { return &Process{pid: os.Getpid(), own: true}, nil }

// Other returns another process as it is now. The error wraps ErrNoProcess.
func Other(pid int) (*Process, error) {
	p := &Process{pid: pid}
	if pid <= 0 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	if err := p.find(); err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p.known = true
	return p, nil
}

// find records the state of every thread.
func (p *Process) find() error {
	tids, err := p.threads()
	if err != nil {
		return err
	}
	p.found = make(map[int]state, len(tids))
	for _, tid := range tids {
		st, err := readState(tid)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return err
		}
		if !p.own && st.marked() {
			st = st.unmarked()
		}
		p.found[tid] = st
	}
	main, ok := p.found[p.pid]
	if !ok {
		return ErrNoProcess
	}
	p.main = main
	return nil
}

// threads lists the present threads.
func (p *Process) threads() ([]int, error) {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.pid), "task"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.own:
		return nil, fmt.Errorf("list threads: %w: mount /proc and try again", err)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
		return nil, ErrNoProcess
	case err != nil:
		return nil, fmt.Errorf("list threads: %w", err)
	}
	tids := make([]int, 0, len(entries))
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

const (
	// maxPasses over the threads: each lowers what came meanwhile, and what comes from a lowered thread is lowered.
	maxPasses = 64
	// settling is how long a thread may be under way to the list: it has the priority that its maker had when it began.
	settling = time.Millisecond
)

// untilQuiet examines threads until none had to be changed, a moment apart, and so those that appeared meanwhile too.
func untilQuiet(pass func() (changed bool, err error)) error {
	for quiet, passes := 0, 0; quiet < 2 && passes < maxPasses; passes++ {
		changed, err := pass()
		if err != nil {
			return err
		}
		quiet++
		if changed {
			quiet = 0
		} else if quiet == 1 {
			time.Sleep(settling)
		}
	}
	return nil
}

// Apply sets the priority of a policy for all threads, including those that appear meanwhile; later ones inherit it.
// What the kernel refuses to this process itself is a note and no error, since the job can run all the same. It takes
// some microseconds a thread and about a millisecond in all; nothing where nothing was lowered and nothing is to be.
func (p *Process) Apply(policy iopolicy.Policy) (Applied, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Applied{Policy: policy}
	p.set(policy)
	if !p.known {
		if !lowers(policy) {
			_, err := p.describe(&out)
			return out, err
		}
		if err := p.find(); err != nil {
			return out, fmt.Errorf("find out own priority: %w", err)
		}
		p.group = ownAutogroup()
		p.idle = p.own && mayLeaveIdle(niceThrottle)
		p.known = true
	}
	if err := untilQuiet(func() (bool, error) { return p.pass(policy, &out) }); err != nil {
		return out, fmt.Errorf("set priority of process %d: %w", p.pid, err)
	}
	if p.group != nil {
		p.group.apply(policy, &out)
	}
	now, err := p.describe(&out)
	if err != nil {
		return out, err
	}
	if !p.own && !lowers(policy) && now.nice > 0 { // also when the marks were taken back by a call before this one
		out.note(fmt.Sprintf("The CPU priority of process %d stays at nice %d, because its earlier value is not known: "+
			"\"renice -n 0 -p %d\" sets it, as root.", p.pid, now.nice, p.pid))
	}
	return out, nil
}

// describe returns the state of the main thread.
func (p *Process) describe(out *Applied) (now state, err error) {
	if now, err = readState(p.pid); err != nil {
		return now, fmt.Errorf("set priority of process %d: %w", p.pid, ErrNoProcess)
	}
	out.Now = now.String()
	return now, nil
}

// pass examines every thread once and reports whether one had to be changed.
func (p *Process) pass(policy iopolicy.Policy, out *Applied) (changed bool, err error) {
	tids, err := p.threads()
	if err != nil {
		return false, err
	}
	out.Threads = len(tids)
	p.forget(tids)
	for _, tid := range tids {
		found, ok := p.found[tid]
		if !ok {
			found = p.main
		}
		notes := out
		if _, taken := p.tids[tid]; taken {
			notes = &Applied{} // it may not be allowed to leave idle scheduling, and ends
		}
		moved, err := p.move(tid, p.target(tid, found, policy), notes)
		switch {
		case errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			return false, err
		}
		changed = changed || moved
	}
	return changed, nil
}

// target returns the state that a policy gives to a thread found in some state. Under Throttle the threads that compute
// have idle scheduling, or all, where they may leave it and none is known to compute or Granted asks for it.
func (p *Process) target(tid int, found state, policy iopolicy.Policy) state {
	if !lowers(policy) {
		return found
	}
	lowered := found.lowered(niceOf(policy), bestEffort(lowestLevel))
	if policy == iopolicy.Throttle && (p.tids[tid] || p.idle && (p.busy == 0 || p.quiet)) {
		lowered = lowered.idle()
	}
	return lowered
}

// move brings a thread from its state to another, one property at a time, so that what is refused of one does not keep
// the others from being set.
func (p *Process) move(tid int, to state, out *Applied) (changed bool, err error) {
	at, err := readState(tid)
	if err != nil {
		return false, err
	}
	for _, step := range []struct {
		needed bool
		set    func() error
		what   string
	}{
		{at.sched != to.sched, func() error { return setSched(tid, to.sched) }, "the scheduling"},
		{at.io != to.io && at.io != ioUnknown, func() error { return setIO(tid, to.io) }, "the I/O class"},
		{at.nice != to.nice, func() error { return unix.Setpriority(unix.PRIO_PROCESS, tid, to.nice) }, "the nice value"},
	} {
		if !step.needed {
			continue
		}
		switch err := step.set(); {
		case err == nil:
			changed = true
		case errors.Is(err, unix.ESRCH):
			return changed, err
		case errors.Is(err, unix.EACCES) && to.nice < at.nice:
			out.note(fmt.Sprintf("The CPU priority stays low, at nice %d instead of %d: only root, or a process whose limit "+
				"for \"nice\" allows it, may raise it again.", at.nice, to.nice))
		case errors.Is(err, unix.EPERM) && !p.own:
			return changed, ErrNotPermitted
		default:
			out.note(fmt.Sprintf("The kernel did not let %s be changed: %v.", step.what, err))
		}
	}
	return changed, nil
}
