package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// protocol is the version. It changes when an old program would misunderstand a new one; ignorable fields do not change
// it.
const protocol = 1

// The longest lines. An answer lists devices, sources and processes.
const (
	requestLine = 4 << 10
	answerLine  = 1 << 20
)

// The requests to a job.
const (
	askStatus    Action = "status"
	setPolicy    Action = "set-policy"
	returnPolicy Action = "return-policy"
	setImpact    Action = "set-max-impact"
)

type request struct {
	Version int `json:"version"`
	Command
	Policy string `json:"policy,omitempty"`
	// ForSeconds is how long the policy holds; 0: until the next change.
	ForSeconds uint64 `json:"for_seconds,omitempty"`
	// MaxImpact is in percent.
	MaxImpact float64 `json:"max_impact,omitempty"`
}

// refusal is the answer to a request that fails.
type refusal struct {
	Type    string `json:"message_type"` // "refused"
	Version int    `json:"version"`
	Message string `json:"message"`
}

func refuse(format string, a ...any) refusal {
	return refusal{"refused", protocol, fmt.Sprintf(format, a...)}
}

// readLine reads one line into v, at most as long as r's buffer. io.EOF means the end of the connection, and errSyntax
// an invalid line.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("%w: a line of more than %d bytes", errSyntax, r.Size())
	case errors.Is(err, io.EOF) && len(line) > 0:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("%w: %w", errSyntax, err)
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if len(line) >= answerLine {
		if line, err = json.Marshal(refuse("the answer is too long")); err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
