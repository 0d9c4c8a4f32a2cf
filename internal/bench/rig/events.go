package rig

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Events parses the output of tidemark --json; output of other programs is dropped.
type Events struct {
	mu      sync.Mutex
	partial []byte
	files   uint64 // done, according to the last status
	summary *event.BackupSummary
}

// Write takes the next piece of output.
func (l *Events) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, ended := bytes.Cut(l.partial, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		l.line(line)
		l.partial = bytes.Clone(rest)
	}
}

func (l *Events) line(text []byte) {
	var kind struct {
		Type string `json:"message_type"`
	}
	if json.Unmarshal(text, &kind) != nil {
		return
	}
	switch kind.Type {
	case "status":
		var s event.Status
		if json.Unmarshal(text, &s) != nil {
			return
		}
		l.files = s.FilesDone
	case "summary":
		var s event.BackupSummary
		if json.Unmarshal(text, &s) == nil {
			l.summary = &s
		}
	}
}

// Files returns how many files were done at the last status.
func (l *Events) Files() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files
}

// End returns the busiest gate of the summary, and how long the job took by its own clock.
func (l *Events) End() (event.Gate, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.summary == nil || len(l.summary.Gates) == 0 {
		return event.Gate{}, 0, ErrNoGates
	}
	return *busiest(l.summary.Gates), time.Duration(l.summary.TotalDuration * float64(time.Second)), nil
}

// busiest is the gate of the disk: the one that held back most. Other gates may belong to the disk that a program is
// loaded from.
func busiest(gates []event.Gate) *event.Gate {
	best := &gates[0]
	for i := range gates {
		if g := &gates[i]; g.Engaged > best.Engaged || g.Engaged == best.Engaged && g.Charged > best.Charged {
			best = g
		}
	}
	return best
}

// Asleep adds up all tiers.
func Asleep(g *event.Gate) (sum float64) {
	for _, s := range g.Asleep {
		sum += s
	}
	return sum
}
