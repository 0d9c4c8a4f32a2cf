package picture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Head is the first line of what was recorded for a picture. Further lines have the type only.
type Head struct {
	Type    string `json:"message_type"` // run of the first line
	Command string `json:"command,omitempty"`
	Date    string `json:"date,omitempty"`
	Machine string `json:"machine,omitempty"`
}

// NewHead returns the head of what is recorded today.
func NewHead(command, machine string) Head {
	return Head{Type: aRun, Command: command, Date: time.Now().UTC().Format(time.DateOnly), Machine: machine}
}

// line is one line of the recorded events. Its type decides which of the fields after the time are set.
type line struct {
	Seconds float64 `json:"seconds"` // since the backup was started
	Head            // of type run, status, reads or summary

	Bytes    uint64  `json:"bytes_read,omitempty"` // status: read by the backup so far
	Device   string  `json:"device,omitempty"`     // of the source
	State    string  `json:"state,omitempty"`      // of the gate: full_speed, in_window or waiting
	Yielding float64 `json:"yielding_seconds,omitempty"`

	Reads uint64 `json:"reads,omitempty"` // reads: of the other program, since the line before
	Spell int    `json:"spell,omitempty"` // reads: which time it runs, from 1; 0: it begins now
}

// The types of lines.
const (
	aRun     = "run"
	aStatus  = "status"
	aReads   = "reads"
	aSummary = "summary"
)

// write writes lines of JSON.
func write[T any](w io.Writer, all []T) error {
	for i := range all {
		text, err := json.Marshal(&all[i])
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}

// read reads what write has written. The first line must be a Head.
func read[T any](r io.Reader) (all []T, err error) {
	var head Head
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var one T
		err := json.Unmarshal(lines.Bytes(), &one)
		if err == nil && len(all) == 0 {
			err = json.Unmarshal(lines.Bytes(), &head)
		}
		if err != nil {
			return nil, fmt.Errorf("read events, line %d: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	if head.Type != aRun {
		return nil, fmt.Errorf("read events: the first line is not of type %q", aRun)
	}
	return all, nil
}
