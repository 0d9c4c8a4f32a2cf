// Package event defines the output of --json: one JSON object per line, each with a message_type. Where restic has an
// event of the same meaning, type and fields have restic's names. A result is declared once: the struct that a verb
// returns has the JSON tags, and Of adds the message_type. Here is what has no such struct, or several sources.
// docs/json.md describes all fields; a test of internal/cli/output compares it with the declarations.
package event

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Writer writes events and records, one per line; it is safe for concurrent use. After a failed write it does nothing
// but return that error.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes v, one of the types of this package or any other value, as one line.
func (w *Writer) Write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		w.err = fmt.Errorf("write event: %w", err)
	}
	return w.err
}

// Of is the event of a result that has no type of its own in this package: the fields of its struct, after kind as
// message_type.
func Of(kind string, result any) any { return &typed{kind, result} }

type typed struct {
	kind   string
	result any
}

// MarshalJSON implements json.Marshaler.
func (t *typed) MarshalJSON() ([]byte, error) {
	fields, err := json.Marshal(t.result)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, `{"message_type":%q`, t.kind)
	if len(fields) > len("{}") {
		head = append(head, ',')
	}
	return append(head, fields[1:]...), nil
}

// Status says how far a job is.
type Status struct {
	Type string `json:"message_type"` // "status"
	// `opening`, `scanning` (a backup also reads and stores), `uploading`, `saving`, `planning`, `restoring`,
	// `finishing`, `checking`, `verifying`, `listing`, `traversing`, `repacking`, `marking`, `indexing`, `removing`,
	// `copying` or `done`
	Phase            string  `json:"phase"`
	SecondsElapsed   uint64  `json:"seconds_elapsed"`             // whole seconds
	SecondsRemaining *uint64 `json:"seconds_remaining,omitempty"` // estimate
	PercentDone      float64 `json:"percent_done"`                // ratio; 0 while the total is unknown
	// the totals are `exact`, `estimated`, or `growing` (lower bounds, so the ratio is an upper one)
	Totals     string `json:"totals,omitempty"`
	TotalFiles uint64 `json:"total_files"` // objects of all types expected
	FilesDone  uint64 `json:"files_done"`  // processed
	// counted if not objects: `packs`, `index files`, `folders`, `files`
	Unit          string  `json:"unit,omitempty"`
	FilesRestored *uint64 `json:"files_restored,omitempty"` // restore: objects written or given metadata
	FilesSkipped  *uint64 `json:"files_skipped,omitempty"`  // left unchanged
	TotalBytes    uint64  `json:"total_bytes"`              // expected
	BytesDone     uint64  `json:"bytes_done"`               // processed
	// restore: file data in place, sparse files with full size
	BytesRestored    *uint64 `json:"bytes_restored,omitempty"`
	BytesRead        uint64  `json:"bytes_read"`        // backup: from files
	BytesTransferred uint64  `json:"bytes_transferred"` // to and from the repository, including retries
	BytesPerSecond   float64 `json:"bytes_per_second"`  // speed in the last 5 s
	ItemsPerSecond   float64 `json:"items_per_second"`
	ErrorCount       uint64  `json:"error_count"` // events so far
	// bottleneck in the last 5 s: `scanning`, `reading`, `computing`, `the repository`, `writing`, `memory`, `the
	// transfer limit` or `an answer of the target`
	WaitingFor   string   `json:"waiting_for,omitempty"`
	TargetError  string   `json:"target_error,omitempty"`  // why the target does not answer, while it is tried again
	CurrentFiles []string `json:"current_files,omitempty"` // paths being processed
	Yielding
}

// NewStatus makes the status of a job. paths are the files it is at.
func NewStatus(t *report.Totals, s report.Speeds, paths []string) *Status {
	p := t.Progress()
	out := &Status{
		Type: "status", Phase: t.Phase.Key(), SecondsElapsed: uint64(t.Elapsed / time.Second),
		PercentDone: p.Ratio(), TotalFiles: p.ObjectsTotal, FilesDone: p.Objects, Unit: p.Unit,
		TotalBytes: p.BytesTotal, BytesDone: p.Bytes, BytesRead: t.Bytes.Read, BytesTransferred: t.Derive().Moved,
		BytesPerSecond: s.Bytes, ItemsPerSecond: s.Items, ErrorCount: t.Failures, WaitingFor: s.Limit.String(),
		TargetError: t.Outage.Why, CurrentFiles: Paths(paths), Yielding: yielding(t),
	}
	switch {
	case p.Growing:
		out.Totals = "growing"
	case p.Exact:
		out.Totals = "exact"
	case p.Known:
		out.Totals = "estimated"
	}
	if s.Left >= 0 {
		left := uint64((s.Left + time.Second - 1) / time.Second)
		out.SecondsRemaining = &left
	}
	if t.Job == report.Restore {
		out.FilesRestored, out.FilesSkipped = &t.Objects.Restored, &t.Objects.Kept
		out.BytesRestored = &t.Bytes.Restored
	}
	return out
}

// Error is a failure of one file, or a remark about it.
type Error struct {
	Type  string `json:"message_type"` // "error", "remark"
	Error struct {
		Text string `json:"message"`
	} `json:"error"` // object with the field `message`
	During string `json:"during"` // `archival` (backup), `restore`, `check` or `prune`
	Op     string `json:"op"`     // such as `open`, `read`, `set owner`
	Item   string `json:"item"`   // path, or empty
	Raw    []byte `json:"path_raw,omitempty"`
}

// NewError returns the event of an issue during a job.
func NewError(job report.Kind, i report.Issue) *Error {
	e := &Error{Type: "error", Op: i.Op, During: job.String()}
	if i.Remark {
		e.Type = "remark"
	}
	if job == report.Backup {
		e.During = "archival" // restic's word
	}
	e.Item, e.Raw = Escape(i.Path)
	if i.Err != nil {
		e.Error.Text = i.Err.Error()
	}
	return e
}

// Exit is the last event of a command that failed.
type Exit struct {
	Type    string `json:"message_type"` // "exit_error"
	Code    int    `json:"code"`         // exit code
	Message string `json:"message"`      // cause and remedy
	// `no space`: the repository has no room
	Reason string `json:"reason,omitempty"`
}

// NoSpace is the reason of a command that failed because the repository has no room.
const NoSpace = "no space"
