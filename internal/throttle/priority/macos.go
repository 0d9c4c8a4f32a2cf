package priority

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// The I/O policies of macOS' own, of sys/resource.h; 4 and 5 came later than 3, so their order is not the order of the
// tiers.
const (
	iopolImportant = 1 // IOPOL_IMPORTANT: tier 0
	iopolPassive   = 2 // IOPOL_PASSIVE: tier 0, and other tiers do not wait for it
	iopolThrottle  = 3 // IOPOL_THROTTLE: tier 3
	iopolUtility   = 4 // IOPOL_UTILITY: tier 2
	iopolStandard  = 5 // IOPOL_STANDARD: tier 1
	iopolGet       = 1 // IOPOL_CMD_GET
	iopolTypeDisk  = 0 // IOPOL_TYPE_DISK
)

// The arguments of getpriority and setpriority there, of sys/resource.h.
const (
	macPrioProcess    = 0      // PRIO_PROCESS
	macPrioBackground = 4      // PRIO_DARWIN_PROCESS
	macBackground     = 0x1000 // PRIO_DARWIN_BG
)

// macCalls are the system calls of macOS.
type macCalls struct {
	getPriority func(which, who int) (int, error)
	setPriority func(which, who, value int) error
	iopolicysys func(command uintptr, param *iopolParam) error
}

// macProcess is a process of macOS whose priority is set, perhaps again and again.
type macProcess struct {
	calls  macCalls
	pid    int
	own    bool
	kernel bool // the kernel delays I/O of worse policies; false: the gates of this program do

	mu    sync.Mutex
	found macState
}

// macState is the priority of one process. Threads need not be looked at: on macOS all of this belongs to the process.
type macState struct {
	nice       int
	background bool
	iopol      int32
}

func newMacProcess(calls macCalls, pid int, own, kernel bool) (*macProcess, error) {
	p := &macProcess{calls: calls, pid: pid, own: own, kernel: kernel}
	if pid <= 0 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	var err error
	p.found, err = p.read()
	return p, err
}

// read returns the priority, as far as macOS shows it. It does not show the background state of another process:
// get_background_proc of kern_resource.c asks for that of the caller.
func (p *macProcess) read() (s macState, err error) {
	if s.nice, err = p.calls.getPriority(macPrioProcess, p.pid); err != nil {
		return macState{}, p.failed("read CPU priority", err)
	}
	if !p.own {
		return s, nil
	}
	low, err := p.calls.getPriority(macPrioBackground, 0) // 0 is the caller, the only form that every version takes
	if err != nil {
		return macState{}, p.failed("read whether it is in the background", err)
	}
	s.background = low != 0
	param := iopolParam{scope: iopolScopeProcess, kind: iopolTypeDisk}
	if err := p.calls.iopolicysys(iopolGet, &param); err != nil {
		return macState{}, p.failed("read I/O policy", err)
	}
	s.iopol = param.policy
	return s, nil
}

func (p *macProcess) failed(what string, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		err = ErrNoProcess
	case errors.Is(err, unix.EPERM) && !p.own:
		err = ErrNotPermitted
	}
	return fmt.Errorf("process %d: %s: %w", p.pid, what, err)
}

// Apply gives the process the priority of a policy. What the kernel refuses to this process itself is no error but a
// note: the job can be done all the same.
func (p *macProcess) Apply(policy iopolicy.Policy) (Applied, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Applied{Policy: policy}
	if !p.own {
		return p.applyFromOutside(policy, out)
	}
	at, err := p.read()
	if err != nil {
		return out, err
	}
	to := p.found.besideGates(policy)
	if p.kernel {
		to = p.found.byKernel(policy)
	}
	p.move(at, to, &out)
	now, err := p.read()
	if err != nil {
		return out, err
	}
	out.Now = now.String()
	return out, nil
}

// besideGates returns s under a policy that the gates of this program carry out: the kernel only gives the processors
// to others first. Passive is an I/O policy under which the kernel never sleeps (tier 0: the first lines of
// throttle_io_will_be_throttled_internal of spec_vnops.c) and no other program sleeps for this one
// (throttle_info_update_internal). The background is left alone: it moves all threads to the efficiency cores and puts
// sockets behind those of others. No part is better than it is in s.
func (s macState) besideGates(policy iopolicy.Policy) macState {
	s.nice = max(s.nice, niceOf(policy))
	if policy != iopolicy.Important {
		s.iopol = worse(s.iopol, iopolPassive)
	}
	return s
}

// byKernel returns s under a policy that the kernel carries out, with no part better than it is in s.
func (s macState) byKernel(policy iopolicy.Policy) macState {
	switch policy {
	case iopolicy.Utility:
		s.nice = max(s.nice, niceUtility)
		s.iopol = worse(s.iopol, iopolUtility)
	case iopolicy.Throttle: // the background lowers the processor's share by itself, and can be left again without a right
		s.background = true
		s.iopol = worse(s.iopol, iopolThrottle)
	case iopolicy.Standard:
		s.iopol = worse(s.iopol, iopolStandard)
	case iopolicy.Passive:
		s.iopol = worse(s.iopol, iopolPassive)
	case iopolicy.Important:
		s.iopol = worse(s.iopol, iopolImportant)
	}
	return s
}

// applyFromOutside sets the background state of another process, whatever it is now: that cannot be read. A policy that
// lowers nothing ends it, since the caller named process and policy. XNU keeps what a process set itself, or inherited
// from the one that started it, apart from what others set, and the process is in the background if either says so
// (task_policy.c 738 and 914). So one that was started in the background stays there.
func (p *macProcess) applyFromOutside(policy iopolicy.Policy, out Applied) (Applied, error) {
	mode, now := 0, ""
	if lowers(policy) {
		mode, now = macBackground, ", background"
		out.note("macOS cannot set the I/O policy of another process: it now runs in the background, where the I/O " +
			"of both utility and throttle is that of utility, on the efficiency cores.")
	} else {
		out.note("macOS does not show whether another process is in the background. If another program had put it there, " +
			"it is not now; a program that put itself there, or that 'tidemark run' started there, stays with its children.")
	}
	if err := p.calls.setPriority(macPrioBackground, p.pid, mode); err != nil {
		return out, p.failed("set the background state", err)
	}
	nice, err := p.calls.getPriority(macPrioProcess, p.pid)
	if err != nil {
		return out, p.failed("read CPU priority", err)
	}
	out.Now = fmt.Sprintf("nice %d%s", nice, now)
	return out, nil
}

// worse returns the I/O policy that waits for more, a where they are alike.
func worse(a, b int32) int32 {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// rank orders I/O policies by whom they wait for. Passive ranks behind important: it does not wait either, but no
// other policy waits for it.
func rank(iopol int32) int {
	switch iopol {
	case iopolPassive:
		return 1
	case iopolStandard:
		return 2
	case iopolUtility:
		return 3
	case iopolThrottle:
		return 4
	}
	return 0
}

// move changes this process from one state to another.
func (p *macProcess) move(at, to macState, out *Applied) {
	mode := 0
	if to.background {
		mode = macBackground
	}
	for _, step := range []struct {
		needed bool
		set    func() error
		what   string
	}{
		{at.iopol != to.iopol, func() error {
			return p.calls.iopolicysys(iopolSet, &iopolParam{iopolScopeProcess, iopolTypeDisk, to.iopol})
		}, "the I/O policy"},
		{at.background != to.background, func() error {
			return p.calls.setPriority(macPrioBackground, 0, mode)
		}, "the background state"},
		{at.nice != to.nice, func() error { return p.calls.setPriority(macPrioProcess, p.pid, to.nice) }, "the nice value"},
	} {
		if !step.needed {
			continue
		}
		switch err := step.set(); {
		case err == nil:
		case errors.Is(err, unix.EACCES) && to.nice < at.nice:
			out.note(fmt.Sprintf("The CPU priority stays low, at nice %d instead of %d: only root may raise it again.",
				at.nice, to.nice))
		default:
			out.note(fmt.Sprintf("The kernel did not let %s be changed: %v.", step.what, err))
		}
	}
}

func (s macState) String() string {
	names := map[int32]string{iopolImportant: "important", iopolPassive: "passive", iopolThrottle: "throttle",
		iopolUtility: "utility", iopolStandard: "standard"}
	text := fmt.Sprintf("nice %d", s.nice)
	if s.background {
		text += ", background"
	}
	if name := names[s.iopol]; name != "" {
		text += ", I/O policy " + name
	}
	return text
}
