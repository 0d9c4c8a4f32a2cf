package notify

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// notifyDesktop shows a message in the Notification Center. Without a session, only a test fails.
func notifyDesktop(ctx context.Context, _ *options.Notify, m *event.Notification) error {
	console := 0
	if info, err := os.Stat("/dev/console"); err == nil { // it belongs to the user of the screen
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			console = int(st.Uid)
		}
	}
	return showInSession(m, osascript(os.Getuid(), console, subject(m), m.Text), func(command []string) error {
		return showBy(ctx, command)
	})
}

func showBy(ctx context.Context, command []string) error {
	ctx, cancel := context.WithTimeout(ctx, once)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = plainEnvironment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %w%s", errDesktop, err, lastWords(out))
	}
	return nil
}
