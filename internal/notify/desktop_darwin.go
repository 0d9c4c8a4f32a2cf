package notify

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// notifyDesktop shows a message in the Notification Center. The texts are arguments, so that they cannot be commands.
func notifyDesktop(ctx context.Context, _ *options.Notify, m *event.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, once)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/osascript", "-e", "on run argv", "-e",
		"display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", subject(m), m.Text)
	cmd.Env = plainEnvironment()
	if out, err := cmd.CombinedOutput(); err != nil && m.Kind == test {
		return fmt.Errorf("%w: %w%s", errDesktop, err, lastWords(out))
	}
	return nil
}
