package foreign

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Idle returns a function that reports whether the user is away; nil if that cannot be known here.
//
// It reads the sessions and terminals that the login service of systemd publishes. The user is away if there are user
// sessions and all their terminals were unused for five minutes. The idle time of a desktop is published over D-Bus
// only, so a desktop session counts as in use. Without any session nothing is known: users of a server come from
// elsewhere.
func Idle() func() bool { return idleBy("/run/systemd/sessions", "/dev") }

const (
	// untouched is for how long a terminal is unused when its user is away.
	untouched = 5 * time.Minute
	// idleFor is for how long an answer is cached.
	idleFor = 5 * time.Second
)

func idleBy(sessions, dev string) func() bool {
	if _, err := os.ReadDir(sessions); err != nil {
		return nil
	}
	var known, idle atomic.Bool
	forget := func() { known.Store(false) }
	return func() bool { // called before every operation, so it does not read the clock
		if !known.Load() && !known.Swap(true) {
			idle.Store(allIdle(sessions, dev, time.Now()))
			time.AfterFunc(idleFor, forget)
		}
		return idle.Load()
	}
}

// allIdle reports whether there are sessions, and all are known to be idle.
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

// session parses the file of a session: whether it is a user's, and whether it is known to be idle.
func session(text, dev string, now time.Time) (user, idle bool) {
	is := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		is[key] = strings.Trim(value, `"`)
	}
	if is["CLASS"] == "greeter" { // a login screen
		return true, true
	}
	if is["CLASS"] != "user" || is["STATE"] == "closing" { // a manager, a lock screen; or it has logged out
		return false, true
	}
	if is["TYPE"] == "unspecified" || is["TYPE"] == "background" { // cron, a service
		return false, true
	}
	if is["TYPE"] != "tty" || is["TTY"] == "" {
		return true, false
	}
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(dev, filepath.Join("/", is["TTY"])), &st)
	return true, err == nil && now.Sub(time.Unix(st.Atim.Unix())) >= untouched // the time of the last input
}
