package report

import (
	"sync"
	"time"
)

// Severity tells a failure from a remark.
type Severity uint8

// The severities.
const (
	Failure Severity = iota // the object is missing from the result, or is not what it should be
	Remark                  // the result is good, but the user should know
)

// Issue is one thing that went wrong with one path.
type Issue struct {
	Time     time.Time
	Severity Severity
	Path     string // bytes as found: need not be UTF-8. Empty if no path is concerned
	Op       string // what was tried, as a verb with its noun: "open", "read", "set owner"
	Err      error
}

// KeptIssues is how many issues a Ledger remembers for the end of a job. Each is given to the sinks as it happens, so
// none is lost; this bounds memory when a million files fail.
const KeptIssues = 1000

// maxOps bounds the number of different Op texts that are counted separately.
const maxOps = 64

type issues struct {
	mu       sync.Mutex
	kept     []Issue
	failures uint64
	notes    uint64
	ops      map[opKey]uint64
	sinks    []func(Issue)
}

type opKey struct {
	severity Severity
	op       string
}

// Fail records that path could not be dealt with: call it once per object. It counts the object as failed.
func (l *Ledger) Fail(path, op string, err error) {
	l.Objects.Failed.Add(1)
	l.issues.add(Issue{Time: l.now(), Severity: Failure, Path: path, Op: op, Err: err})
}

// Note records something about path that the user should know but that does not make the result wrong: an attribute the
// target of a restore cannot hold, a file that changed while it was read.
func (l *Ledger) Note(path, op string, err error) {
	l.issues.add(Issue{Time: l.now(), Severity: Remark, Path: path, Op: op, Err: err})
}

// OnIssue registers a function that is given every issue as it happens. Calls are serialised; the function must be
// quick and must not call Fail or Note.
func (l *Ledger) OnIssue(sink func(Issue)) {
	l.issues.mu.Lock()
	defer l.issues.mu.Unlock()
	l.issues.sinks = append(l.issues.sinks, sink)
}

// Issues returns the first KeptIssues issues.
func (l *Ledger) Issues() []Issue {
	l.issues.mu.Lock()
	defer l.issues.mu.Unlock()
	return append([]Issue(nil), l.issues.kept...)
}

func (is *issues) add(i Issue) {
	is.mu.Lock()
	defer is.mu.Unlock()
	if i.Severity == Failure {
		is.failures++
	} else {
		is.notes++
	}
	if len(is.kept) < KeptIssues {
		is.kept = append(is.kept, i)
	}
	key := opKey{i.Severity, i.Op}
	if _, known := is.ops[key]; !known && len(is.ops) >= maxOps {
		key.op = "other"
	}
	if is.ops == nil {
		is.ops = make(map[opKey]uint64)
	}
	is.ops[key]++
	for _, sink := range is.sinks {
		sink(i)
	}
}

func (is *issues) counts() (failures, notes uint64) {
	is.mu.Lock()
	defer is.mu.Unlock()
	return is.failures, is.notes
}
