package notify

import (
	"fmt"
	"log/syslog"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// lines is how many lines may wait for the journal or syslog.
const lines = 256

// SystemLog is a sink that writes the log to the journal or to syslog.
type SystemLog struct {
	queue *queue[event.Log]
	end   func() error
}

// OpenLog opens the log that the option syslog names. It returns nil for none; auto is the journal, if there is one.
func OpenLog(kind string) (*SystemLog, error) {
	switch {
	case kind == "syslog":
		w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, "tidemark")
		if err != nil {
			return nil, fmt.Errorf("open syslog: %w; SYSLOG off does without it", err)
		}
		return newLog(func(l event.Log) { _ = toSyslog(w, &l) }, w.Close), nil
	case kind == "journal" || kind == "auto" && journal.Enabled():
		return newLog(func(l event.Log) { _ = toJournal(&l) }, func() error { return nil }), nil
	}
	return nil, nil
}

func newLog(write func(event.Log), end func() error) *SystemLog {
	return &SystemLog{newQueue(lines, write), end}
}

// Event writes the line of e. A line is dropped if too many wait.
func (s *SystemLog) Event(e *record.Event) {
	if line, ok := record.Line(e); ok {
		s.queue.put(line)
	}
}

// Close waits for a short time until all lines are written.
func (s *SystemLog) Close() error {
	s.queue.close(closing)
	return s.end()
}

func toJournal(l *event.Log) error {
	level := map[string]journal.Priority{"warning": journal.PriWarning, "error": journal.PriErr}
	priority, ok := level[l.Level]
	if !ok {
		priority = journal.PriInfo
	}
	fields := map[string]string{"SYSLOG_IDENTIFIER": "tidemark"}
	if l.Job != "" {
		fields["TIDEMARK_JOB"] = l.Job
	}
	if l.Run != "" {
		fields["TIDEMARK_RUN"] = l.Run
	}
	return journal.Send(l.Sentence(), priority, fields)
}

func toSyslog(w *syslog.Writer, l *event.Log) error {
	switch l.Level {
	case "warning":
		return w.Warning(l.Sentence())
	case "error":
		return w.Err(l.Sentence())
	}
	return w.Info(l.Sentence())
}
