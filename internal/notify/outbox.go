package notify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// letter is a message for one receiver. It has no address: that is looked up in the options when it is sent.
type letter struct {
	Way     string             `json:"way"`
	Message event.Notification `json:"message"`
	After   time.Time          `json:"after,omitzero"` // it is held back until then

	number  uint64 // the order of letters, and the name of the file
	sending bool
}

// outbox is the folder of letters that their receivers have not accepted, a file for each. The methods are not safe for
// concurrent use.
type outbox struct {
	dir     string
	letters []*letter // in order
	past    history
}

// history is what was sent. It lies in the folder too.
type history struct {
	Sent      map[string][]time.Time `json:"sent,omitempty"`      // by cause: within a day
	Summaries map[string]time.Time   `json:"summaries,omitempty"` // by job: the last one
	Failing   map[string]bool        `json:"failing,omitempty"`   // by job: the last run that was reported failed
}

const (
	letterEnd   = ".letter"
	historyFile = "history"
)

// open reads the folder. A file that cannot be read is left there.
func (b *outbox) open() error {
	b.past = history{Sent: map[string][]time.Time{}, Summaries: map[string]time.Time{}, Failing: map[string]bool{}}
	err := os.MkdirAll(b.dir, 0o700)
	entries, listed := os.ReadDir(b.dir)
	err = errors.Join(err, listed)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), letterEnd)
		number, bad := strconv.ParseUint(name, 16, 64)
		if !ok || bad != nil {
			if strings.HasSuffix(e.Name(), ".tmp") { // of a service that was killed
				_ = os.Remove(filepath.Join(b.dir, e.Name()))
			}
			continue
		}
		l := &letter{number: number}
		content, failed := os.ReadFile(filepath.Join(b.dir, e.Name()))
		if failed == nil {
			failed = json.Unmarshal(content, l)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		b.letters = append(b.letters, l)
	}
	slices.SortFunc(b.letters, func(x, y *letter) int { return cmp.Compare(x.number, y.number) })
	content, failed := os.ReadFile(filepath.Join(b.dir, historyFile))
	if failed == nil {
		failed = json.Unmarshal(content, &b.past)
	}
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("read the waiting notifications in %s: %w", b.dir, err)
	}
	return nil
}

// add writes a letter. It is kept in memory if that fails.
func (b *outbox) add(l *letter) error {
	l.number = 1
	if n := len(b.letters); n > 0 {
		l.number = b.letters[n-1].number + 1
	}
	b.letters = append(b.letters, l)
	content, err := json.Marshal(l)
	if err == nil {
		err = optionfile.Replace(b.path(l), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a notification: %w", err)
	}
	return nil
}

// remove removes the letters that drop selects.
func (b *outbox) remove(drop func(*letter) bool) {
	b.letters = slices.DeleteFunc(b.letters, func(l *letter) bool {
		if !drop(l) {
			return false
		}
		_ = os.Remove(b.path(l)) // if it stays, it is sent again after a restart
		return true
	})
}

func (b *outbox) path(l *letter) string {
	return filepath.Join(b.dir, fmt.Sprintf("%016x%s", l.number, letterEnd))
}

// save writes the history.
func (b *outbox) save() error {
	content, err := json.Marshal(b.past)
	if err == nil {
		err = optionfile.Replace(filepath.Join(b.dir, historyFile), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember what was notified: %w", err)
	}
	return nil
}

// admit counts a message of a cause, and returns when it may be sent: zero for now. Within each day, most are sent. It
// replaces one that is held back.
func (b *outbox) admit(cause string, at time.Time, most int) (after time.Time) {
	after = b.full(cause, at, most)
	b.past.Sent[cause] = append(b.sent(cause, at), latest(at, after))
	for other, times := range b.past.Sent {
		if len(times) == 0 || at.Sub(times[len(times)-1]) >= day {
			delete(b.past.Sent, other)
		}
	}
	return after
}

// full returns when the next message of a cause may be sent; zero: now.
func (b *outbox) full(cause string, at time.Time, most int) (after time.Time) {
	sent := b.sent(cause, at)
	if n := len(sent); n >= most && most > 0 {
		after = sent[n-most].Add(day)
	}
	return after
}

// sent returns when messages of a cause were sent in the last day.
func (b *outbox) sent(cause string, at time.Time) (times []time.Time) {
	for _, t := range b.past.Sent[cause] {
		if !t.After(at) && at.Sub(t) < day {
			times = append(times, t)
		}
	}
	return times
}

// said remembers a message that is sent.
func (b *outbox) said(m *event.Notification) {
	switch {
	case failure(m.Kind):
		b.past.Failing[m.Job] = true
	case m.Kind == recovered:
		delete(b.past.Failing, m.Job)
	}
}

func latest(t, u time.Time) time.Time {
	if u.After(t) {
		return u
	}
	return t
}
