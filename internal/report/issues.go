package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Issue is one thing that went wrong with one path. In a failure, the object is missing from the result, or is not what
// it should be.
type Issue struct {
	Remark bool   // no failure: the result is good, but the user should know
	Path   string // bytes as found: need not be UTF-8. Empty if no path is concerned
	Op     string // what was tried, as a verb with its noun: "open", "read", "set owner"
	Err    error
}

// KeptIssues is how many failures, and how many remarks, a Ledger remembers for the end of a job. Each is given to the
// sinks as it happens, so none is lost; this bounds memory when a million files fail.
const KeptIssues = 1000

// maxOps bounds the number of different Op texts of remarks that are counted separately.
const maxOps = 64

// shownKinds is how many kinds of remarks Remarks names.
const shownKinds = 3

type issues struct {
	mu       sync.Mutex
	kept     []Issue
	failures uint64
	notes    uint64
	remarks  map[string]uint64 // by Op
	sinks    []func(Issue)
}

// Fail records that path could not be dealt with: call it once per object. It counts the object as failed.
func (l *Ledger) Fail(path, op string, err error) {
	l.Objects.Failed.Add(1)
	l.issues.add(Issue{Path: path, Op: op, Err: err})
}

// Doubt records that a source as a whole does not have what it had before. It is a failure, and counted apart, too.
func (l *Ledger) Doubt(source string, err error) {
	l.doubted.Add(1)
	l.Fail(source, "source", err)
}

// Note records something about path that the user should know but that does not make the result wrong: an attribute the
// target of a restore cannot hold, a file that changed while it was read.
func (l *Ledger) Note(path, op string, err error) {
	l.issues.add(Issue{Remark: true, Path: path, Op: op, Err: err})
}

// OnIssue registers a function that is given every issue as it happens. Calls are serialised; the function must be
// quick and must not call Fail or Note.
func (l *Ledger) OnIssue(sink func(Issue)) {
	l.issues.mu.Lock()
	defer l.issues.mu.Unlock()
	l.issues.sinks = append(l.issues.sinks, sink)
}

// Issues returns the first KeptIssues failures and the first KeptIssues remarks, in the order in which they happened.
func (l *Ledger) Issues() []Issue {
	l.issues.mu.Lock()
	defer l.issues.mu.Unlock()
	return slices.Clone(l.issues.kept)
}

func (is *issues) add(i Issue) {
	is.mu.Lock()
	defer is.mu.Unlock()
	n := &is.failures
	if i.Remark {
		n = &is.notes
		is.countRemark(i.Op)
	}
	*n++
	if *n <= KeptIssues {
		is.kept = append(is.kept, i)
	}
	for _, sink := range is.sinks {
		sink(i)
	}
}

func (is *issues) countRemark(op string) {
	if _, known := is.remarks[op]; !known && len(is.remarks) >= maxOps {
		op = "other"
	}
	if is.remarks == nil {
		is.remarks = make(map[string]uint64)
	}
	is.remarks[op]++
}

func (is *issues) counts() (failures, notes uint64) {
	is.mu.Lock()
	defer is.mu.Unlock()
	return is.failures, is.notes
}

// byOp returns the kinds of remarks, most frequent first, and how often there was each.
func (is *issues) byOp() (ops []string, counts map[string]uint64) {
	is.mu.Lock()
	defer is.mu.Unlock()
	counts = maps.Clone(is.remarks)
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}), counts
}

// WriteIssues writes the issues at the end of a job: the number of each kind of remark, then the first failures by
// path, up to a limit, and the number of others. It writes nothing without issues.
func (l *Ledger) WriteIssues(b *bytes.Buffer, most int) {
	ops, counts := l.issues.byOp()
	for _, op := range ops {
		fmt.Fprintf(b, "%s: %s\n", op, human.Plural(counts[op], "remark"))
	}
	var shown uint64
	for _, i := range l.Issues() {
		if !i.Remark && shown < uint64(most) {
			b.WriteString(i.String() + "\n")
			shown++
		}
	}
	if failures, _ := l.issues.counts(); failures > shown {
		fmt.Fprintf(b, "and %s\n", human.Plural(failures-shown, "more failure"))
	}
}

// Remarks returns a line with the number of remarks of each kind, empty without remarks.
func (l *Ledger) Remarks() string {
	var kinds []string
	var sum uint64
	ops, counts := l.issues.byOp()
	for _, op := range ops {
		sum += counts[op]
		if len(kinds) < shownKinds {
			kinds = append(kinds, fmt.Sprintf("%s: %s", op, human.Count(counts[op])))
		}
	}
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s); -v shows each", human.Plural(sum, "remark"), strings.Join(kinds, ", "))
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
	err := i.Err
	if path, ok := err.(*fs.PathError); ok { //nolint:errorlint // only the outermost repeats operation and path
		err = path.Err
	}
	return s + ": " + human.Printable(err.Error())
}
