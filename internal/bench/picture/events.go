package picture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// line is one line of the recorded events. Its type decides which of the fields after the time are set.
type line struct {
	Seconds float64 `json:"seconds"`      // since the backup was started
	Type    string  `json:"message_type"` // run, status, reads or summary

	Command string `json:"command,omitempty"` // run
	Date    string `json:"date,omitempty"`
	Machine string `json:"machine,omitempty"`

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

// write writes events, one a line.
func write(w io.Writer, all []line) error {
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

// read reads what write has written.
func read(r io.Reader) (all []line, err error) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("read events, line %d: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 || all[0].Type != aRun {
		return nil, fmt.Errorf("read events: the first line is not of type %q", aRun)
	}
	return all, nil
}
