package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/human"
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

type opCount struct {
	op string
	n  uint64
}

// byOp returns how often each operation had an issue of this severity, most frequent first.
func (is *issues) byOp(s Severity) []opCount {
	is.mu.Lock()
	defer is.mu.Unlock()
	var out []opCount
	for k, n := range is.ops {
		if k.severity == s {
			out = append(out, opCount{k.op, n})
		}
	}
	slices.SortFunc(out, func(a, b opCount) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.op, b.op))
	})
	return out
}

// WriteIssues writes what went wrong, for the end of a job: how often there was each kind of remark, then the first
// failures by path, at most as many as told, and how many more there were. It writes nothing if all went well.
func (l *Ledger) WriteIssues(w io.Writer, most int) error {
	var b strings.Builder
	for _, c := range l.issues.byOp(Remark) {
		fmt.Fprintf(&b, "%s: %s\n", c.op, human.Plural(c.n, "remark"))
	}
	var shown uint64
	for _, i := range l.Issues() {
		if i.Severity == Failure && shown < uint64(most) {
			b.WriteString(i.String() + "\n")
			shown++
		}
	}
	if failures, _ := l.issues.counts(); failures > shown {
		fmt.Fprintf(&b, "and %s more\n", human.Plural(failures-shown, "failure"))
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write issues: %w", err)
	}
	return nil
}

// String is the issue in one printable line: "open /etc/shadow: permission denied".
func (i Issue) String() string {
	s := i.Op
	if i.Path != "" {
		s += " " + human.Printable(i.Path)
	}
	if i.Err == nil {
		return s
	}
	return s + ": " + human.Printable(i.Err.Error())
}
