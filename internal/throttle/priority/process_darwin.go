package priority

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// The I/O policies of macOS' own, as getiopolicy_np(3) and sys/resource.h name them; 4 and 5 came later than 3, so
// their order is not the order of the tiers.
const (
	iopolDefault   = 0
	iopolImportant = 1
	iopolPassive   = 2
	iopolThrottle  = 3
	iopolUtility   = 4
	iopolStandard  = 5
)

// The system call behind getiopolicy_np and setiopolicy_np, for which there is no function without cgo.
const (
	sysIopolicysys = 322
	iopolGet       = 1
	iopolTypeDisk  = 0
)

// Process is a process whose priority is set, perhaps again and again. It is safe for concurrent use.
type Process struct {
	pid int
	own bool

	mu    sync.Mutex
	found state
}

// state is the priority of one process. Threads need not be looked at: on macOS all of this belongs to the process.
type state struct {
	nice       int
	background bool
	iopol      int32
}

// This returns this process as it is now. Call it once, at the start: what it finds is what a better policy goes back
// to.
func This() (*Process, error) {
	p := &Process{pid: os.Getpid(), own: true}
	return p, p.find()
}

// Other returns another process as it is now. The error wraps ErrNoProcess if there is none of that number.
func Other(pid int) (*Process, error) {
	p := &Process{pid: pid}
	if pid <= 0 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	return p, p.find()
}

func (p *Process) find() (err error) {
	p.found, err = p.read()
	return err
}

func (p *Process) read() (s state, err error) {
	if s.nice, err = unix.Getpriority(unix.PRIO_PROCESS, p.pid); err != nil {
		return state{}, p.failed("read CPU priority", err)
	}
	low, err := unix.Getpriority(unix.PRIO_DARWIN_PROCESS, p.who())
	if err != nil {
		return state{}, p.failed("read whether it is in the background", err)
	}
	s.background = low != 0
	if p.own {
		param := iopolParam{scope: iopolScopeProcess, kind: iopolTypeDisk}
		if err := iopolicysys(iopolGet, &param); err != nil {
			return state{}, p.failed("read I/O policy", err)
		}
		s.iopol = param.policy
	}
	return s, nil
}

// who is how setpriority(2) names the process: 0 for the caller, the only form that every version takes.
func (p *Process) who() int {
	if p.own {
		return 0
	}
	return p.pid
}

func (p *Process) failed(what string, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		err = ErrNoProcess
	case errors.Is(err, unix.EPERM) && !p.own:
		err = ErrNotPermitted
	}
	return fmt.Errorf("process %d: %s: %w", p.pid, what, err)
}

func iopolicysys(command uintptr, param *iopolParam) error {
	_, _, errno := unix.Syscall(sysIopolicysys, command, uintptr(unsafe.Pointer(param)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Apply gives the process the priority of a policy. What the kernel refuses to this process itself is no error but a
// note: the job can be done all the same.
func (p *Process) Apply(policy iopolicy.Policy) (Applied, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Applied{Policy: policy}
	at, err := p.read()
	if err != nil {
		return out, err
	}
	to := p.found.lowered(policy)
	if !p.own {
		to = p.found.loweredFromOutside(policy)
		if lowers(policy) {
			out.note("macOS cannot set the I/O policy of another process: it now runs in the background, where the I/O " +
				"of both utility and throttle is that of utility.")
		}
	}
	if err := p.move(at, to, &out); err != nil {
		return out, err
	}
	now, err := p.read()
	if err != nil {
		return out, err
	}
	out.Now = now.String()
	return out, nil
}

// lowered returns s under a policy, with no part better than it is in s.
func (s state) lowered(policy iopolicy.Policy) state {
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

// loweredFromOutside returns what a process is under a policy that another one gives it. Only the background can be
// set; a policy that lowers nothing takes it away again, since the caller named process and policy.
func (s state) loweredFromOutside(policy iopolicy.Policy) state {
	s.background = lowers(policy)
	return s
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

func (p *Process) move(at, to state, out *Applied) error {
	out.Threads = 0 // all of them; their number is not needed
	mode := 0
	if to.background {
		mode = unix.PRIO_DARWIN_BG
	}
	for _, step := range []struct {
		needed bool
		set    func() error
		what   string
	}{
		{at.iopol != to.iopol, func() error {
			return iopolicysys(iopolSet, &iopolParam{iopolScopeProcess, iopolTypeDisk, to.iopol})
		}, "the I/O policy"},
		{at.background != to.background, func() error {
			return unix.Setpriority(unix.PRIO_DARWIN_PROCESS, p.who(), mode)
		}, "the background state"},
		{at.nice != to.nice, func() error { return unix.Setpriority(unix.PRIO_PROCESS, p.pid, to.nice) }, "the nice value"},
	} {
		if !step.needed {
			continue
		}
		switch err := step.set(); {
		case err == nil:
		case errors.Is(err, unix.EACCES) && to.nice < at.nice:
			out.note(fmt.Sprintf("The CPU priority stays low, at nice %d instead of %d: only root may raise it again.",
				at.nice, to.nice))
		case p.own:
			out.note(fmt.Sprintf("The kernel did not let %s be changed: %v.", step.what, err))
		default:
			return p.failed("set "+step.what, err)
		}
	}
	return nil
}

func (s state) String() string {
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
