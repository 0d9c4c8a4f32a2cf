package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/notify"
)

// jobTestNotifyCommand is a verb of the command job.
func (a *app) jobTestNotifyCommand() *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "test-notify [flags] NAME",
		Short: "Send a test message in each way that a job has",
		Long: `Sends a test message by mail, to the webhook, to the healthcheck and to the desktop, as far as the options of
the job name them, and
prints the results. The exit code is 1 if one failed.`,
		Args: arguments(1, 1),
	}, func(ctx context.Context, args []string) error { return a.testNotify(ctx, args[0]) })
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[0] != job.Default {
			if err := c.Flags().Set("server-name", args[0]); err != nil {
				return usagef("%s: %v", args[0], err)
			}
		}
		return run(c, args)
	}
	return c
}

func (a *app) testNotify(ctx context.Context, name string) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the name of this machine: %w", err)
	}
	o := a.spec.Notify()
	results := notify.Test(ctx, &o, host, name, time.Now())
	if err := a.print.Print(&output.NotifyTests{List: results}); err != nil {
		return err
	}
	sent := 0
	for _, r := range results {
		if r.Error != "" {
			return errors.New("not every message was sent")
		}
		if r.Skipped == "" {
			sent++
		}
	}
	if sent == 0 {
		return fmt.Errorf("job %s has no way to notify: set NOTIFYMAIL, NOTIFYWEBHOOK or HEALTHCHECK in its stanza", name)
	}
	return nil
}
