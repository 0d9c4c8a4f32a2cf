package priority

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioprio is the I/O priority of a thread in the kernel's encoding: a class in the upper bits and a level, 0 (best) to
// 7.
type ioprio int

const (
	classShift = 13 // IOPRIO_CLASS_SHIFT of linux/ioprio.h, as the other numbers here
	levelMask  = 7

	classNone       = 0 // not set: best effort, at a level that follows from the nice value
	classRealTime   = 1
	classBestEffort = 2
	classIdle       = 3

	lowestLevel = 7

	ioNone    ioprio = 0
	ioIdle    ioprio = classIdle << classShift
	ioUnknown ioprio = -1 // this kernel has no such thing

	ofThread = 1 // IOPRIO_WHO_PROCESS, which in spite of its name is one thread
)

func bestEffort(level int) ioprio { return classBestEffort<<classShift | ioprio(level) }

func (p ioprio) class() int { return int(p >> classShift) }

// rank orders I/O priorities, the best first. What is not set follows the nice value, as the kernel has it.
func (p ioprio) rank(nice int) int {
	switch p.class() {
	case classRealTime:
		return int(p & levelMask)
	case classBestEffort:
		return 8 + int(p&levelMask)
	case classIdle:
		return 16
	}
	return 8 + (nice+20)/5
}

func (p ioprio) String() string {
	switch p.class() {
	case classRealTime:
		return fmt.Sprintf("real-time I/O level %d", p&levelMask)
	case classBestEffort:
		return fmt.Sprintf("best-effort I/O level %d", p&levelMask)
	case classIdle:
		return "idle I/O class"
	case classNone:
		return "I/O class not set"
	}
	return "I/O class not known"
}

// state is the priority of one thread.
type state struct {
	sched int // SCHED_..., with SCHED_RESET_ON_FORK
	nice  int // -20 (best) to 19
	io    ioprio
}

// lowered returns s with at least this nice value and I/O priority, and batch scheduling: the thread gets no
// preference when it wakes. No part becomes better than in s. Real-time and idle scheduling stay: they set the share
// of the processor, and a nice value has no effect there.
func (s state) lowered(nice int, io ioprio) state {
	if s.io != ioUnknown && io.rank(nice) > s.io.rank(s.nice) {
		s.io = io
	}
	switch s.sched &^ unix.SCHED_RESET_ON_FORK {
	case unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_DEADLINE, unix.SCHED_IDLE:
		return s
	case unix.SCHED_NORMAL:
		s.sched |= unix.SCHED_BATCH
	}
	s.nice = max(s.nice, nice)
	return s
}

// idle returns s with idle scheduling in place of batch scheduling: a thread that wakes beside it runs at once, where
// it waits for a batch thread until the scheduler's next tick. docs/adr/0015 has the figures.
func (s state) idle() state {
	if s.sched&^unix.SCHED_RESET_ON_FORK == unix.SCHED_BATCH {
		s.sched = s.sched&unix.SCHED_RESET_ON_FORK | unix.SCHED_IDLE
	}
	return s
}

// mayLeaveIdle reports whether the kernel lets a thread of this process with a nice value leave idle scheduling again:
// that takes CAP_SYS_NICE, or a limit for "nice" (RLIMIT_NICE, where 20 stands for a nice value of 0) that allows the
// value.
func mayLeaveIdle(nice int) bool {
	var header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_NICE) != 0 {
		return true
	}
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NICE, &limit) == nil && limit.Cur >= uint64(20-nice)
}

// marked reports whether s looks like a thread that lowered made: hardly anything else uses batch scheduling.
func (s state) marked() bool {
	return s.sched&^unix.SCHED_RESET_ON_FORK == unix.SCHED_BATCH && s.nice >= niceUtility &&
		(s.io == ioIdle || s.io == bestEffort(lowestLevel))
}

// unmarked returns what s was before, as far as that can be known: the nice value cannot.
func (s state) unmarked() state {
	s.sched &^= unix.SCHED_BATCH
	s.io = ioNone
	return s
}

func (s state) String() string {
	parts := []string{fmt.Sprintf("nice %d", s.nice)}
	names := map[int]string{unix.SCHED_BATCH: "batch", unix.SCHED_IDLE: "idle", unix.SCHED_FIFO: "real-time",
		unix.SCHED_RR: "real-time", unix.SCHED_DEADLINE: "deadline"}
	if name := names[s.sched&^unix.SCHED_RESET_ON_FORK]; name != "" {
		parts = append(parts, name+" scheduling")
	}
	return strings.Join(append(parts, s.io.String()), ", ")
}

// readState reads the state of a thread. ESRCH means that the thread has ended.
func readState(tid int) (state, error) {
	sched, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
	if errno != 0 {
		return state{}, fmt.Errorf("read scheduling: %w", errno)
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil {
		return state{}, fmt.Errorf("read nice value: %w", err)
	}
	s := state{sched: int(sched), nice: 20 - raw} // the call returns 1 to 40, since an error is negative
	io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ofThread, uintptr(tid), 0)
	switch {
	case errno == 0:
		s.io = ioprio(io)
		if s.io.class() == classNone {
			s.io = ioNone // before 5.20 a level came with it, with which it cannot be set again
		}
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EPERM): // built without, or filtered in a container
		s.io = ioUnknown
	default:
		return state{}, fmt.Errorf("read I/O priority: %w", errno)
	}
	return s, nil
}

func setSched(tid, sched int) error {
	var param struct{ priority int32 } // 0 for everything that is not real-time
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), uintptr(sched), uintptr(unsafe.Pointer(&param)))
	if errno != 0 {
		return errno
	}
	return nil
}

func setIO(tid int, p ioprio) error {
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ofThread, uintptr(tid), uintptr(p))
	if errno != 0 {
		return errno
	}
	return nil
}
