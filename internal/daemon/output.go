package daemon

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// Bounds of what is kept of the output of a step.
const (
	longestLine    = 1 << 20 // a longer line is dropped
	longestSummary = 64 << 10
	longestMessage = 1 << 10
	longestFailure = 200
	longestCommand = 8 << 10 // in a message: it has paths
	shownFailures  = 10
	mostHooks      = 16
	shownLines     = 5 // of the output of a command that failed
)

// output reads what a step prints: lines of JSON.
type output struct {
	progress func(*event.Status)
	list     failureList

	mu      sync.Mutex
	line    []byte
	long    bool   // the line is dropped
	printed Result // without the exit code; the message is that of exit_error
	last    string // last line that is no JSON, such as that of a crash
}

// Write implements io.Writer. It never fails: a step must not end because of what it prints.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for {
		part, rest, found := bytes.Cut(p, []byte("\n"))
		if len(o.line)+len(part) > longestLine {
			o.long = true
		}
		if !o.long {
			o.line = append(o.line, part...)
		}
		if !found {
			return n, nil
		}
		o.take()
		p = rest
	}
}

// end takes a last line without an end.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.take()
	o.list.close()
}

// take uses the line that is complete.
func (o *output) take() {
	line := o.line
	long := o.long
	o.line, o.long = o.line[:0], false
	if cap(line) > longestSummary {
		o.line = nil // the next lines are short
	}
	if long || len(line) == 0 {
		return
	}
	var head struct {
		Type    string `json:"message_type"`
		Message string `json:"message"`
		Keep    bool   `json:"keep"`
		Failed  bool   `json:"failed"`
		Reason  string `json:"reason"`
	}
	if json.Unmarshal(line, &head) != nil || head.Type == "" {
		o.last = shorten(strings.ToValidUTF8(string(line), "?"))
		return
	}
	switch head.Type {
	case "status":
		var s event.Status
		if json.Unmarshal(line, &s) == nil && o.progress != nil {
			o.progress(&s)
		}
	case "summary", "drill":
		if len(line) <= longestSummary {
			o.printed.Summary = bytes.Clone(line)
		}
	case "hook":
		var h event.Hook
		if json.Unmarshal(line, &h) == nil && len(o.printed.Hooks) < mostHooks {
			o.printed.Hooks = append(o.printed.Hooks, h)
		}
	case "error":
		var e event.Error
		_ = json.Unmarshal(line, &e) // the line counts, whatever it says
		failed := &o.printed.Failures
		if failed.Count++; failed.Count <= shownFailures {
			failed.First = append(failed.First, oneFailure(&e))
		}
		o.list.add(line)
	case "exit_error":
		o.printed.Message, o.printed.Full = shorten(unattended(head.Message)), head.Reason == event.NoSpace
	case "forget":
		if !head.Keep && !head.Failed {
			o.printed.Removed++
		}
	}
}

// result returns what was printed.
func (o *output) result(code int) Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.printed
	r.ExitCode = code
	if code == 0 {
		r.Message = ""
	} else {
		r.Message = cmp.Or(r.Message, o.last)
		for i := range r.Hooks {
			if h := &r.Hooks[i]; h.Error != "" && h.Output != "" {
				r.Message += "\n" + h.Step + " printed: " + shorten(strings.Join(lastLines(h.Output, shownLines), "\n"))
			}
		}
	}
	return r
}

// lastLines returns the last lines of a text, at most most.
func lastLines(text string, most int) []string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return all[max(0, len(all)-most):]
}

// shorten bounds a message.
func shorten(text string) string {
	return cut(strings.TrimSpace(text), longestMessage)
}

// cut bounds a text. A command of this program that does not fit stays, with what follows, since a person types it.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	valid := func(text string) string { return strings.ToValidUTF8(text, "") }
	const command = "tidemark "
	for at := strings.Index(text, command); at >= 0; {
		from, end := at, len(text)
		if at > 0 && text[at-1] == '\'' {
			from, end = at-1, strings.LastIndexByte(text, '\'')
		}
		if end > most && len(text)-at <= longestCommand {
			if at <= most {
				return valid(text)
			}
			return valid(text[:most]) + "... " + valid(text[from:])
		}
		next := strings.Index(text[at+1:], command)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return valid(text[:most]) + "..."
}

// unattended is a message of a command for a run in which a person runs none.
func unattended(text string) string {
	return strings.ReplaceAll(text, store.RunAgain, "the service tries again")
}

// oneFailure describes an object that failed.
func oneFailure(e *event.Error) string {
	text := e.Op + ": " + cut(unattended(e.Error.Text), longestFailure)
	if e.Item == "" {
		return text
	}
	return cut(e.Item, longestFailure) + ": " + text
}

// mostListed bounds the size of a list of failed objects.
const mostListed = 64 << 20

// failureList is the file with the objects that failed in a step. That it cannot be written is no reason for a step to
// end: the message of the run has the first objects.
type failureList struct {
	path   string // "": no list
	file   *os.File
	size   int
	broken bool
}

// add appends a line. The file is made with the first one.
func (l *failureList) add(line []byte) {
	if l.path == "" || l.broken || l.size+len(line) >= mostListed {
		return
	}
	var err error
	if l.file == nil {
		if err = os.MkdirAll(filepath.Dir(l.path), 0o700); err == nil {
			l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		}
	}
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.size += len(line) + 1
	l.broken = err != nil
}

func (l *failureList) close() {
	if l.file != nil {
		_ = l.file.Close() // add has reported nothing either
	}
}
