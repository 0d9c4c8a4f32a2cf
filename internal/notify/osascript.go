package notify

import (
	"strconv"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// osascript returns the command that shows a message in the Notification Center of macOS, for a process of the user
// uid; console is the user of the screen, 0 at the login window. It is nil if there is no session to show it in. Only a
// process in the session of a user reaches the Notification Center: a daemon enters it by `launchctl asuser`, which
// keeps root, and then becomes the user. The texts are arguments, so that they cannot be commands.
func osascript(uid, console int, title, text string) (command []string) {
	if uid == 0 {
		if console == 0 {
			return nil
		}
		user := strconv.Itoa(console)
		command = []string{"/bin/launchctl", "asuser", user, "/usr/bin/sudo", "-n", "-u", "#" + user, "--"}
	}
	return append(command, "/usr/bin/osascript", "-e", "on run argv", "-e",
		"display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title, text)
}

// showInSession runs the command of osascript. Without a session, and where the command fails, only a test fails.
func showInSession(m *event.Notification, command []string, run func(command []string) error) error {
	err := errDesktop
	if command != nil {
		err = run(command)
	}
	if m.Kind != test {
		return nil
	}
	return err
}
