package pressure

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Idle returns a function that tells whether nobody is using the machine; nil if that cannot be known here.
//
// It reads what the login service of systemd shows to everybody: the sessions, and the terminals of those that have one.
// Nobody is there if users have sessions and all have left their terminals alone for five minutes. Of a desktop it only
// knows that it is there, since its idle time is told over D-Bus alone: then somebody may be using it. Without any session
// nothing is known: whoever uses a server does so from elsewhere.
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
	var known, idle atomic.Bool
	forget := func() { known.Store(false) }
	return func() bool { // before every operation, so without a look at the clock
		if !known.Load() && !known.Swap(true) {
			idle.Store(allIdle(sessions, dev, time.Now()))
			time.AfterFunc(idleFor, forget)
		}
		return idle.Load()
	}
}

// allIdle tells whether there are sessions, and all are known to be idle.
func allIdle(sessions, dev string, now time.Time) bool {
	entries, err := os.ReadDir(sessions)
	if err != nil {
		return false
	}
	users := 0
	for _, e := range entries {
		if !e.Type().IsRegular() { // a pipe by which a session holds on
			continue
		}
		text, err := os.ReadFile(filepath.Join(sessions, e.Name()))
		if err != nil {
			return false
		}
		user, idle := session(string(text), dev, now)
		if !idle {
			return false
		}
		if user {
			users++
		}
	}
	return users > 0
}

// session judges one session by the file that describes it: whether a user may sit there, and whether nobody sits there.
func session(text, dev string, now time.Time) (user, idle bool) {
	is := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		is[key] = strings.Trim(value, `"`)
	}
	if is["CLASS"] == "greeter" { // somebody could sit there, and does not
		return true, true
	}
	if is["CLASS"] != "user" || is["STATE"] == "closing" { // a manager, a lock screen; or it has logged out
		return false, true
	}
	if is["TYPE"] == "unspecified" || is["TYPE"] == "background" { // cron, a service: nobody sits there
		return false, true
	}
	if is["TYPE"] != "tty" || is["TTY"] == "" {
		return true, false
	}
	info, err := os.Stat(filepath.Join(dev, filepath.Join("/", is["TTY"])))
	return true, err == nil && now.Sub(lastRead(info)) >= untouched
}
