package pressure

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Idle returns a function that tells whether nobody is using the machine; nil if that cannot be known here.
//
// It reads what the login service of systemd shows to everybody: the sessions, and the terminals of those that have one.
// Nobody is there if no user has a session, or all have left their terminals alone for five minutes. Of a desktop it only
// knows that it is there, since its idle time is told over D-Bus alone: then somebody may be using it.
func Idle() func() bool { return idleBy("/run/systemd/sessions", "/dev") }

const (
	// untouched is how long a terminal has not been used when its user has gone.
	untouched = 5 * time.Minute
	// idleFor is how long an answer is kept.
	idleFor = 5 * time.Second
)

func idleBy(sessions, dev string) func() bool {
	if _, err := os.ReadDir(sessions); err != nil {
		return nil
	}
	var mu sync.Mutex
	var at time.Time
	var idle bool
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); at.IsZero() || now.Sub(at) >= idleFor {
			at, idle = now, allIdle(sessions, dev, now)
		}
		return idle
	}
}

// allIdle tells whether all sessions are known to be idle.
func allIdle(sessions, dev string, now time.Time) bool {
	entries, err := os.ReadDir(sessions)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.Type().IsRegular() { // a pipe by which a session holds on
			continue
		}
		text, err := os.ReadFile(filepath.Join(sessions, e.Name()))
		if err != nil || !sessionIdle(string(text), dev, now) {
			return false
		}
	}
	return true
}

// sessionIdle judges one session by the file that describes it.
func sessionIdle(text, dev string, now time.Time) bool {
	is := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		is[key] = strings.Trim(value, `"`)
	}
	if is["CLASS"] != "user" || is["STATE"] == "closing" { // a greeter, a manager, a lock screen; or it has logged out
		return true
	}
	if is["TYPE"] == "unspecified" || is["TYPE"] == "background" { // cron, a service: nobody sits there
		return true
	}
	if is["TYPE"] != "tty" || is["TTY"] == "" {
		return false
	}
	info, err := os.Stat(filepath.Join(dev, filepath.Join("/", is["TTY"])))
	return err == nil && now.Sub(lastRead(info)) >= untouched
}
