package priority

import (
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Nice values: by how much the share of a contended processor falls. The scheduler of Linux gives a process 1.25 times
// the weight of the next nicer one, so that beside one busy process of nice 0, nice 5 gets a quarter and nice 10 a
// tenth. Not 19, which gets 1.5 %: what holds a lock of the file system has to get on, and without root there is no way
// back.
const (
	niceUtility  = 5
	niceThrottle = 10
)

// Applied is the result of applying a policy.
type Applied struct {
	Policy  iopolicy.Policy
	Threads int    // of the process, when the last of them was looked at; 0: there was no need to look
	Now     string // what holds for the main thread: "nice 10, batch scheduling, idle I/O class"
	// Notes are sentences for the user: what could not be set or not be undone, and what can be done about it.
	Notes []string
}

func (a *Applied) note(sentence string) {
	if !slices.Contains(a.Notes, sentence) {
		a.Notes = append(a.Notes, sentence)
	}
}

// niceOf returns the least nice value under a policy; the best, -20, if it lowers nothing.
func niceOf(p iopolicy.Policy) int {
	switch p {
	case iopolicy.Utility:
		return niceUtility
	case iopolicy.Throttle:
		return niceThrottle
	case iopolicy.Important, iopolicy.Standard, iopolicy.Passive:
	}
	return -20
}

// lowers reports whether a policy lowers the CPU priority.
func lowers(p iopolicy.Policy) bool { return niceOf(p) > 0 }

// ApplyTo applies the kernel-side part of a policy to another process, all its threads and its future children. A
// policy that lowers nothing undoes an earlier ApplyTo, as far as the process shows it, and changes nothing else. The
// error wraps ErrNoProcess or ErrNotPermitted.
func ApplyTo(pid int, p iopolicy.Policy) (Applied, error) {
	process, err := Other(pid)
	if err != nil {
		return Applied{Policy: p}, err
	}
	return process.Apply(p)
}
